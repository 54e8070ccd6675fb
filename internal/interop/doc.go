// Package interop runs the ledger and the witness against programs and libraries
// of others. It holds tests only, in a module of its own, so that what the peers
// need stays out of the product's module. It imports nothing of the product
// either: the product is built and started as anybody would.
//
//	kit_test.go       programs: built once, started, stopped
//	ledger_test.go    a running ledger with many leaves
//	tiles_test.go     Tessera, x/mod and torchwood read our log
//	note_test.go      keys, a log in memory, requests, verification by others
//	protocol_test.go  one table of requests to three witnesses
//	quorum_test.go    three witnesses of three makers cosign our log
//	feed_test.go      the load test and the feeder of others, against our witness
//	vectors_test.go   the published vectors under the parsers of others
//
// What was found is in docs/spec/peers.md.
package interop
