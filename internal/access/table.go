package access

const (
	// rpc and tool head the routes of procedures and of MCP.
	rpc  = "/counterfoil.v1.LedgerService/"
	tool = "mcp tools/call "

	records = Writer
	reads   = Auditor
	both    = Writer | Auditor
	admins  = Roles(0) // beside Admin, who may do everything
)

// table is who may use which route. A route is a pattern of the HTTP interface, the
// path of a procedure, or a method of MCP, with the tool's name where there is one.
// Admin may use all of them.
//
// A writer reads what it can name, since it gets the same back when it sends its
// event again, and /log/ shows the leaves to everyone. It reads contracts and
// dispositions to know whether a call may be made. What was admitted on, lists, and
// who else records are not its business.
var table = map[string]Roles{
	// For everyone: what auditors and witnesses of anybody's making need.
	"GET /log/":      Public,
	"GET /v1/trust":  Public,
	"GET /v1/policy": Public,
	"GET /healthz":   Public,
	"GET /readyz":    Public,
	"/.well-known/oauth-protected-resource/mcp": Public,
	rpc + "GetTrust": Public,

	// Recording.
	"POST /v1/attempts":                       records,
	"POST /v1/attempts/{attemptId}/events":    records,
	"POST /v1/events:batch":                   records,
	"POST /v1/archive":                        records,
	"POST /v1/rechecks":                       records,
	"POST /v1/admissions/{attemptId}/receipt": records,
	rpc + "Begin":                             records,
	rpc + "Append":                            records,
	tool + "receipt_begin":                    records,
	tool + "receipt_append":                   records,

	// Reading what one can name.
	"GET /v1/attempts/{attemptId}":          both,
	"GET /v1/attempts/{attemptId}/bundle":   both,
	"GET /v1/bundle":                        both,
	"GET /v1/receipts/{eventId}":            both,
	"GET /v1/receipts/{eventId}/tlog-proof": both,
	"GET /v1/contracts":                     both,
	"GET /v1/dispositions":                  both,
	"GET /v1/status":                        both,
	"GET /v1/cluster":                       both,
	rpc + "GetAttempt":                      both,
	rpc + "GetReceipt":                      both,
	rpc + "ExportBundle":                    both,
	rpc + "GetTlogProof":                    both,
	rpc + "GetStatus":                       both,
	"/mcp":                                  both, // each call inside has a row of its own
	tool + "receipt_get":                    both,
	tool + "bundle_export":                  both,
	tool + "receipt_verify":                 both,
	"mcp resources/read":                    both,
	"mcp resources/subscribe":               both,
	// Any other path: that there is nothing, and which methods a path has.
	"/": both,

	// Reading everything.
	"GET /v1/attempts":              reads,
	"GET /v1/receipts":              reads,
	"GET /v1/parked":                reads,
	"GET /v1/events":                reads,
	"GET /v1/reviews":               reads,
	"GET /v1/reviews/{eventId}/vsa": reads,
	"GET /v1/archive/{digest}":      reads,
	"GET /v1/keys":                  reads,
	"GET /v1/holds":                 reads,
	"GET /metrics":                  reads,
	rpc + "ListAttempts":            reads,
	rpc + "ListReceipts":            reads,
	rpc + "ListParked":              reads,
	rpc + "StreamEvents":            reads,
	tool + "receipt_search":         reads,
	"mcp resources/list":            reads,

	// Running the ledger.
	"POST /v1/keys":                        admins,
	"POST /v1/keys/rotate":                 admins,
	"POST /v1/keys/{keyId}/status":         admins,
	"POST /v1/backup":                      admins,
	"POST /v1/erasures":                    admins,
	"POST /v1/holds":                       admins,
	"POST /v1/holds/{holdId}/release":      admins,
	"POST /v1/retention":                   admins,
	"POST /v1/cluster/nodes/{name}/remove": admins,
}

// Needs returns the roles of which a caller must have one. What is not in the table
// is for the admin alone.
func Needs(route string) Roles {
	r := table[route]
	if r == Public {
		return Public | anyRole
	}
	return r | Admin
}

// Known reports whether the table has a row for a route.
func Known(route string) bool {
	_, ok := table[route]
	return ok
}

// Routes are the rows of the table, in no order.
func Routes() []string {
	out := make([]string, 0, len(table))
	for route := range table {
		out = append(out, route)
	}
	return out
}
