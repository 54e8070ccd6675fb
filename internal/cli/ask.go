package cli

import "counterfoil/ledger/client"

// withClient asks the ledger once.
func withClient[T any](c *cli, ask func(*client.Client) (*client.Answer[T], error)) (*client.Answer[T], error) {
	cl, err := c.connect(false)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	return ask(cl)
}

// show prints an answer: as the ledger wrote it, with --json, else for people.
func show[T any](c *cli, a *client.Answer[T], err error, people func(*T) error) error {
	if err != nil {
		return err
	}
	if c.json {
		return c.printRaw(a.Raw)
	}
	return people(&a.Value)
}

// send has a body on standard input recorded, and prints the receipt. what names the
// body for people.
func (c *cli) send(wait, what string, record func(cl *client.Client, body []byte, stage client.Stage) (*client.Answer[client.Receipt], error)) error {
	stage, err := stageOf(wait)
	if err != nil {
		return err
	}
	cl, err := c.connect(false)
	if err != nil {
		return err
	}
	defer cl.Close()
	body, err := c.readBody(what)
	if err != nil {
		return err
	}
	a, err := record(cl, body, stage)
	if err != nil {
		return err
	}
	return c.printRaw(a.Raw)
}
