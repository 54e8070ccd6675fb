// Package mcpsessions holds recorded MCP sessions: the quick start shows them,
// and tests read them. README.md beside it says what is in which file.
package mcpsessions

import "embed"

// FS holds every session, one file NAME.jsonl each.
//
//go:embed *.jsonl
var FS embed.FS
