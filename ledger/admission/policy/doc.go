// Package policy holds the policy document of admissions: risk classes, rules in
// CEL, exemptions with an end, and retention classes, in one YAML file.
//
// [Lint] reports every problem of a document with line, column and a hint; [Load]
// refuses a document with any problem of severity error. A policy is named by the
// SHA-256 of its canonical JSON form: the document as it is written, without
// comments and layout, in RFC 8785. Nothing is filled in before hashing.
//
// Rules are evaluated in the order of the document, each with a cost limit, and
// every rule gives a verdict; one that cannot be evaluated is an error, never a
// pass. The package does no I/O and reads no clock: time comes in. Docs:
// docs/policy.md. Sources: ADM-28, ADM-29, ARC-06, ARC-07, X5, X7.
package policy
