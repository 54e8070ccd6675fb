// Package faults tests the ledger as a program: real processes, real disks,
// killed at bad moments. It holds tests only.
package faults
