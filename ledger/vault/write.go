package vault

import (
	"github.com/dgraph-io/badger/v4"
)

// kv is a row to write; a nil value deletes it.
type kv struct{ name, value []byte }

// op is a change that happens whole or not at all.
type op struct {
	// check looks at the state before the change, in which all earlier changes
	// are contained, and may fill in rows. skip: there is nothing to write, but
	// the answer waits all the same until what the check saw is in the operating
	// system's hands.
	check  func(txn *badger.Txn) (skip bool, err error)
	rows   []kv
	more   int  // bytes that check will fill in, at most
	always bool // also with little disk space
	local  bool // in this vault alone, if it has a log
	kind   byte // of a message of its own, without changes here; 0: changeRows

	done chan error
}

func (o *op) size() int {
	n := o.more
	for _, r := range o.rows {
		n += len(r.name) + len(r.value) + 64
	}
	return n
}

// do hands o to the committer and waits for it. Many callers at once share one
// transaction.
func (v *Vault) do(o *op) error {
	o.done = make(chan error, 1)
	if err := v.enter(); err != nil {
		return err
	}
	v.ops <- o
	v.leave()
	return <-o.done
}

// commitOps is the committer, the only writer of the store: what an op checks
// cannot change before it is written.
func (v *Vault) commitOps() {
	for o := range v.ops {
		group, size := []*op{o}, o.size()
	gather:
		for size < maxGroupBytes && len(group) < maxGroupOps {
			select {
			case o, ok := <-v.ops:
				if !ok {
					break gather
				}
				group, size = append(group, o), size+o.size()
			default:
				break gather
			}
		}
		for i, err := range v.commit(group, size) {
			group[i].done <- err
		}
	}
}

func (v *Vault) commit(group []*op, size int) []error {
	errs := make([]error, len(group))
	all := func(err error) []error {
		for i := range errs {
			if errs[i] == nil {
				errs[i] = err
			}
		}
		return errs
	}
	if err := v.failed(); err != nil {
		return all(err)
	}
	spaceErr := v.space.admit(size)
	txn := v.db.NewTransaction(true)
	defer txn.Discard()
	for i, o := range group {
		if spaceErr != nil && !o.always {
			errs[i] = spaceErr
			continue
		}
		if o.check != nil {
			skip, err := o.check(txn)
			errs[i] = err
			if skip || err != nil {
				continue
			}
		}
		for _, r := range o.rows {
			var err error
			if r.value == nil {
				err = txn.Delete(r.name)
			} else {
				err = txn.Set(r.name, r.value)
			}
			if err != nil { // the sizes forbid it, and a transaction cannot drop half an op
				return all(v.fail("write", err))
			}
		}
	}
	// Commit returns when Badger has copied the rows into the memory map of its
	// write-ahead log. From here on the death of the process loses nothing:
	// Badger reads that log again when it is opened.
	if err := txn.Commit(); err != nil {
		return all(v.fail("write", err))
	}
	return errs
}
