package stream

import (
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/crypto/bcrypt"
)

// Accounts of the embedded server. External consumers have one of their own, and
// reach the stream through the few requests that are exported to it. Rights
// alone would not do: whoever may send any request names the subject that the
// answer goes to, and the server publishes it there. With an account of their
// own the answer stays in it, where no stream listens.
const (
	account        = "LEDGER"
	readersAccount = "READERS"
)

// readable are the requests that external consumers may send, all of which leave
// the stream as it is. Consumers are pull consumers; the others deliver to a
// subject of the ledger's account.
func readable(stream string) []string {
	js := "$JS.API."
	return []string{
		js + "STREAM.INFO." + stream,
		js + "STREAM.MSG.GET." + stream,
		js + "DIRECT.GET." + stream,
		js + "DIRECT.GET." + stream + ".>",
		js + "CONSUMER.CREATE." + stream,
		js + "CONSUMER.CREATE." + stream + ".>",
		js + "CONSUMER.INFO." + stream + ".*",
		js + "CONSUMER.DELETE." + stream + ".*",
		js + "CONSUMER.MSG.NEXT." + stream + ".*",
		"$JS.ACK." + stream + ".>",
	}
}

// addAccounts sets the accounts and their users: we ourselves, with all rights
// and a password that never leaves the process, and the external consumers if
// there is a listener for them. In a cluster there is a user of the servers' own
// account as well.
func addAccounts(o *server.Options, cfg *Config, password, system string) error {
	// One import for all requests: an account without it gets the server's own
	// for the rest, and is then told that it has no JetStream.
	servers := ""
	if cfg.Cluster != nil {
		servers = systemAccount + " {}"
	}
	err := o.ProcessConfigString(fmt.Sprintf(`accounts {
		%[4]s
		%[1]s {jetstream: enabled, exports: [
			{service: "$JS.API.>", response_type: stream, accounts: [%[2]s]}
			{service: "$JS.ACK.%[3]s.>", accounts: [%[2]s]}
		]}
		%[2]s {imports: [
			{service: {account: %[1]s, subject: "$JS.API.>"}}
			{service: {account: %[1]s, subject: "$JS.ACK.%[3]s.>"}}
		]}
	}`, account, readersAccount, cfg.Name, servers))
	if err != nil {
		return fmt.Errorf("accounts of the embedded stream server: %w", err)
	}
	for _, a := range o.Accounts {
		switch a.Name {
		case systemAccount:
			if err := addSystemUser(o, a, system); err != nil {
				return err
			}
		case account:
			hash, err := hashed(password)
			if err != nil {
				return err
			}
			o.Users = append(o.Users, &server.User{Username: ownUser, Password: hash, Account: a})
		case readersAccount:
			if cfg.ListenAddr == "" {
				continue
			}
			hash, err := hashed(cfg.ConsumerToken)
			if err != nil {
				return err
			}
			o.Users = append(o.Users, &server.User{Username: cfg.ConsumerUser, Password: hash, Account: a, Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: readable(cfg.Name)},
				Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
			}})
		}
	}
	return nil
}

// hashed is the form in which the server wants passwords. They are random and
// long, so the cheapest cost is enough.
func hashed(password string) (string, error) {
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		return "", fmt.Errorf("password of the embedded stream server: %w", err)
	}
	return string(h), nil
}
