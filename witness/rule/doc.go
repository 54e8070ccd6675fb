// Package rule decides what a C2SP tlog-witness answers, as pure functions: no
// I/O, no clock, no goroutine. It follows the current text of tlog-witness,
// where a root that differs at the stored size is 422, and 409 means a wrong old
// size and nothing else.
//
//	request.go   the body of add-checkpoint: parse and write
//	decide.go    accept, or a refusal with its HTTP status
//	cosign.go    the cosignature/v1 message and signature line (type 0x04)
//	evidence.go  counterfoil.equivocation.v1: two signed trees that disagree
//
// # Order of the checks
//
//	400  the body is not exactly a request
//	404  unknown origin
//	403  no signature by a trusted key, or one by a trusted key that does not verify
//	400  old size above the checkpoint's size
//	409  old size is not the size of the latest cosigned checkpoint
//	422  size 0 with another root than SHA-256(""); old size 0 with a proof;
//	     same size with another root; a proof that does not verify
package rule
