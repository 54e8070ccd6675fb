// Package server answers the C2SP tlog-witness protocol over HTTP.
//
//	key.go      the witness's key file
//	limit.go    requests a day of one log
//	server.go   add-checkpoint and monitoring
//	health.go   healthz, readyz, metrics
//
// What is decided is in package rule, what is remembered in package state.
package server
