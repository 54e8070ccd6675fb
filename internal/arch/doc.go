// Package arch holds the project to its own rules by tests alone: which package
// may import which (rules_test.go, a table with the reason of each rule), what
// no text may contain, and that every rule in requirements.txt has a test that
// carries its id.
package arch
