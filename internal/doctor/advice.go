package doctor

import "strings"

// advice is what a check that is not well means, and what to do.
type advice struct {
	meaning string
	next    []string // "PROGRAM" stands for how the user calls it
	runbook string
}

const books = "docs/runbooks/"

// advices has every check, of a directory and of a running ledger. "witness" stands for
// the checks of single witnesses.
var advices = map[string]advice{
	// Of a directory.
	"directory":     {"There is no ledger in this directory, or a part of one.", []string{"PROGRAM doctor --data DIR"}, books + "missing.md#a-part-of-the-data-directory-is-missing"},
	"permissions":   {"Somebody else on this machine may read what must stay secret, or the token is no token: a start refuses that.", nil, books + "missing.md#a-part-of-the-data-directory-is-missing"},
	"identity":      {"What was chosen once, at the first start, cannot be read, or another version of the program wrote it.", []string{"PROGRAM upgrade --help"}, books + "upgrade.md"},
	"keys":          {"Without its keys a ledger can neither sign nor open its vault. None is ever made anew.", []string{"PROGRAM keys list"}, books + "keys.md#event-keys"},
	"clock":         {"The clock of this machine went back, or was ahead before. Times in receipts are this clock's; the order of events is not.", []string{"chronyc tracking"}, books + "clock.md"},
	"witness state": {"A witness is or was at odds with this log. If it stopped the log, nothing is taken or signed until somebody has found out why.", nil, books + "unwitnessed.md#the-log-signs-nothing-any-more"},
	"space":         {"A start needs half of the reserve, and events are taken only above all of it. Nothing is lost.", nil, books + "disk-full.md#the-disk-is-nearly-full"},
	"guard":         {"The log is not the tree that the guard has seen, and signing it could show two histories. The start refuses that.", nil, books + "will-not-sign.md#the-ledger-refuses-to-start-and-signs-nothing"},
	"checkpoint":    {"What is published is not what the log holds. A missing or older checkpoint is signed anew by a start; another one is not.", nil, books + "unpublished.md"},
	"vault":         {"Without the vault no repeat can be compared and no commitment opened. The start refuses that.", []string{"PROGRAM restore --help"}, books + "missing.md#a-part-of-the-data-directory-is-missing"},
	"address":       {"Another process listens there, perhaps another ledger.", nil, books + "ended.md#the-process-ended-by-itself"},
	"nats":          {"The external NATS cannot be used: no events are taken, and what was logged is safe.", nil, books + "stream.md"},
	"server":        {"A process has the data directory and does not answer where it was asked.", []string{"PROGRAM doctor --data DIR --server http://HOST:PORT"}, books + "alerts.md#counterfoildown"},
	// Of a running ledger.
	"disk":      {"New events are refused until there is space again; what was accepted is kept.", []string{"df -h DIR"}, books + "disk-full.md#the-disk-is-nearly-full"},
	"stream":    {"The stream takes no events now. Callers are told to try again, and nothing that was accepted is lost.", []string{"PROGRAM doctor --data DIR --nats URL"}, books + "stream.md"},
	"log":       {"Accepted events are not becoming leaves. Nothing is skipped: the log goes on where it is.", []string{"df -h DIR"}, books + "alerts.md#counterfoilbacklog"},
	"tiles":     {"A file of the log has other bytes than the signed tree. What is read elsewhere is untouched.", []string{"PROGRAM audit DIR --trust trust.json"}, books + "damaged.md#a-file-of-the-log-is-damaged"},
	"publisher": {"Leaves are durable, and no signed checkpoint covers them.", nil, books + "unpublished.md"},
	"witnesses": {"Checkpoints do not get the cosignatures that the policy asks for. Receipts say so; events are taken all the same, unless signing was stopped.", nil, books + "unwitnessed.md"},
	"witness":   {"This witness says that the log is not the one that it knows.", nil, books + "unwitnessed.md#a-witness-is-alone-with-what-it-says"},
	"index":     {"The index of source events stopped: repeats cannot be recognised, so nothing is taken. It is derived.", []string{"restart the ledger; if it persists, stop it and remove DIR/index"}, books + "ended.md#the-process-ended-by-itself"},
	"views":     {"Lists and searches do not follow the log. They are derived; receipts by id are right.", []string{"PROGRAM rebuild --data DIR, with the ledger stopped"}, books + "views.md"},
	"cluster":   {"One of the nodes is away, or none signs. Two of three go on; with one alone no event is taken.", []string{"PROGRAM doctor --cluster"}, books + "cluster.md#a-node-is-away-or-the-nodes-do-not-agree"},
	"running":   {"The ledger is stopping.", []string{"PROGRAM serve --data DIR"}, books + "ended.md#the-process-ended-by-itself"},
}

// Explain completes a check that is not OK.
func Explain(program string, c Check) Check {
	if c.Result == OK {
		return c
	}
	name := c.Name
	if strings.HasPrefix(name, "witness ") && name != "witness state" {
		name = "witness"
	}
	a, known := advices[name]
	if !known {
		a = advice{meaning: "The ledger has a check that this program does not know.", runbook: books + "README.md#runbooks"}
	}
	c.Meaning, c.Runbook = a.meaning, a.runbook
	if len(c.Next) == 0 {
		for _, n := range a.next {
			c.Next = append(c.Next, strings.ReplaceAll(n, "PROGRAM", program))
		}
	}
	if len(c.Next) == 0 {
		c.Next = []string{"read " + a.runbook}
	}
	return c
}
