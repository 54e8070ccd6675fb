//go:build !linux

package faults

// diskKinds are those that need a file system of their own.
func diskKinds() []kind { return nil }
