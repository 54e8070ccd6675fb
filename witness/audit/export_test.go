package audit

// InBatches makes the fold commit after that many rows, and tells of each commit.
func InBatches(rows int, committed func()) func(*Config) {
	return func(c *Config) { c.batch, c.committed = rows, committed }
}
