// Package faults tests the ledger as a program: real processes, real disks,
// killed at bad moments. It holds tests only.
//
// TestCampaign lets every kind of fault happen at random and compares each time
// with a model of what was acknowledged; kinds are in the files kind_*, what is
// judged is in round_test.go and model_test.go. With flags after -args it runs for
// longer, from a seed, and writes docs/faults.md:
//
//	go test ./internal/faults -run TestCampaign -v -timeout 0 -args -minutes 30 -out docs/faults.md
package faults
