package app

// DieAt makes what the custody does end with an error at a step, as if the process
// had died there. nil ends that.
func (l *Ledger) DieAt(f func(step string) error) { l.custody.fault = f }
