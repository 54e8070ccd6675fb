// Package deploytest tries what is in deploy/ as far as it can be tried without a
// container engine. It holds tests only, in a module of its own, so that Prometheus and
// a NATS server by its configuration file stay out of the product's module. It imports
// nothing of the product: the product is built as the Dockerfile says and started as
// the compose file says.
//
//	kit_test.go        programs: built once, started, stopped
//	compose_test.go    the compose file: pinned, bounded, nobody is root
//	image_test.go      the Dockerfile's commands, and the programs under a read-only root
//	stack_test.go      the whole stack without its containers, by the files' own commands
//	metrics_test.go    every metric of alerts and dashboard is one that a ledger shows
//	alerts_test.go     when alerts fire, and that each has a runbook
//	units_test.go      the systemd units
package deploytest
