// Package access says who may do what on a ledger's port: roles, the table of
// routes, the tokens that an operator made, and limits on how often a caller asks.
//
// The bearer token in DIR/token is the first one and has the role admin. Further
// tokens are in DIR/tokens.json, as digests; see [Store].
package access

import (
	"context"
	"fmt"
	"strings"
)

// Roles is a set of roles. Its zero value may do nothing.
type Roles uint8

// The roles. A token has at least one.
const (
	// Writer records: attempts, further events, batches, admissions with their
	// evidence. It reads what it can name and what tells it whether a call may be
	// made; it lists nothing.
	Writer Roles = 1 << iota
	// Auditor reads everything that is read, and changes nothing.
	Auditor
	// Admin may do everything.
	Admin

	// Public marks a route of the table that needs no token; no token has it.
	Public

	anyRole = Writer | Auditor | Admin
)

var roleNames = []struct {
	role Roles
	name string
}{{Writer, "writer"}, {Auditor, "auditor"}, {Admin, "admin"}}

// RoleNames are the names that a token's roles are given by.
func RoleNames() []string {
	out := make([]string, len(roleNames))
	for i, r := range roleNames {
		out[i] = r.name
	}
	return out
}

// ParseRoles reads the names of at least one role, each once.
func ParseRoles(names []string) (Roles, error) {
	var out Roles
	for _, name := range names {
		var role Roles
		for _, r := range roleNames {
			if r.name == name {
				role = r.role
			}
		}
		if role == 0 || out&role != 0 {
			return 0, fmt.Errorf("role %q is unknown or given twice (hint: %s)", name, strings.Join(RoleNames(), ", "))
		}
		out |= role
	}
	if out == 0 {
		return 0, fmt.Errorf("no role (hint: %s)", strings.Join(RoleNames(), ", "))
	}
	return out, nil
}

// Names are the names of the roles, in a fixed order.
func (r Roles) Names() []string {
	var out []string
	for _, n := range roleNames {
		if r&n.role != 0 {
			out = append(out, n.name)
		}
	}
	return out
}

func (r Roles) String() string { return strings.Join(r.Names(), ",") }

// Caller is who sent a request.
type Caller struct {
	// Name is that of the token: no secret, and no identity that the log knows.
	Name  string
	Roles Roles
	// Revoked ends when the token does not count any more; nil if it cannot be
	// revoked while the ledger runs.
	Revoked context.Context
}

// May reports whether the caller may use a route; see [Needs].
func (c *Caller) May(route string) bool { return c.Roles&Needs(route) != 0 }

type callerKey struct{}

// WithCaller returns a context that knows who sent the request.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns who sent the request of a context, nil for nobody.
func CallerOf(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}
