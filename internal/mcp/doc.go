// Package mcp is the ledger's MCP server: agents and their hosts record and
// check evidence through the Model Context Protocol.
//
// There is one implementation over one small interface, [Ledger], with two
// backends: the handlers of the process that it runs in ([Local]) and a ledger
// over HTTP ([Remote]). [Server.ServeStdio] speaks newline-delimited JSON-RPC,
// [Server.Mount] adds /mcp (streamable HTTP) and its protected-resource metadata
// to a ledger's port.
//
//	guard.go      bounds every message before the protocol library sees it
//	stdio.go      lines in, lines out
//	http.go       /mcp behind the bearer token
//	tools.go      the six tools and how a call is answered
//	record.go     receipt_begin, receipt_append
//	read.go       receipt_get, receipt_search, bundle_export
//	result.go     what an attempt says of its call
//	verify.go     receipt_verify
//	schema*.go    the exact schemas of arguments and answers
//	resources.go  receipts and attempts as resources
//	subscribe.go  updates of attempts
//
// What goes wrong in a tool is a tool result with a stable code, never an error
// of the protocol. No private value and no salt is in any answer.
// docs/mcp.md is the contract.
package mcp
