package stream

import "github.com/nats-io/nats-server/v2/server"

// users are who may connect once the embedded server listens: we ourselves,
// with all rights and a password that never leaves the process, and the
// external consumers.
func users(cfg *Config, own string) []*server.User {
	js, name := "$JS.API.", cfg.Name
	return []*server.User{
		{Username: ownUser, Password: own},
		{Username: cfg.ConsumerUser, Password: cfg.ConsumerToken, Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{
				js + "INFO",
				js + "STREAM.NAMES",
				js + "STREAM.INFO." + name,
				js + "STREAM.MSG.GET." + name,
				js + "DIRECT.GET." + name,
				js + "DIRECT.GET." + name + ".>",
				js + "CONSUMER.CREATE." + name,
				js + "CONSUMER.CREATE." + name + ".>",
				js + "CONSUMER.INFO." + name + ".*",
				js + "CONSUMER.DELETE." + name + ".*",
				js + "CONSUMER.MSG.NEXT." + name + ".*",
				"$JS.ACK." + name + ".>",
				"$JS.FC." + name + ".>",
			}},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
		}},
	}
}
