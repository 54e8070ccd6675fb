// Command benchpeers measures the ledger beside programs and libraries of others
// in one run on one machine. They are a module of their own, so that what they
// need stays out of the product's module.
//
//	go -C internal/benchpeers run . [-only SECTION,…] [-rounds 5] [-seconds 4] [-out docs/benchmarks.md]
//
// In every round each system records on an empty directory, one system after the
// other, so that all of them see the same good and bad minutes of the machine.
// Each gets a warm-up of an eighth of the time that does not count.
//
//	main.go       command line
//	beside.go     the section: what runs, in which order, what is compared
//	meaning.go    what an answer of each system means
//	immudb.go     immudb, embedded
//	tessera.go    Tessera's POSIX driver alone
//	jetstream.go  NATS JetStream alone, in this process
//	rekor.go      Rekor v2's POSIX server, a process of its own
package main
