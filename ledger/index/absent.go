package index

// absent remembers keys that have no row, so that they are not looked for in
// the database again: two generations, so that it stays bounded without a list.
// It is guarded by Index.mu. A key leaves it in the step that gives it a row.
type absent[K comparable] struct {
	limit      int // keys in a generation
	young, old map[K]struct{}
}

// absentKeys bounds what is remembered of each kind. An attempt is begun within
// a moment of its look-up.
const absentKeys = 8 << 10

func newAbsent[K comparable]() absent[K] {
	return absent[K]{limit: absentKeys / 2, young: map[K]struct{}{}}
}

func (a *absent[K]) has(k K) bool {
	_, ok := a.young[k]
	if !ok {
		_, ok = a.old[k]
	}
	return ok
}

func (a *absent[K]) put(k K) {
	if len(a.young) >= a.limit {
		a.young, a.old = map[K]struct{}{}, a.young
	}
	a.young[k] = struct{}{}
}

func (a *absent[K]) drop(k K) {
	delete(a.young, k)
	delete(a.old, k)
}
