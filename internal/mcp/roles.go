package mcp

import (
	"context"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"counterfoil/internal/access"
	"counterfoil/internal/api"
)

const callerKey = "caller"

// withCaller tells the protocol library who sent a request, which the ledger's port
// has found out. A session belongs to the token that began it: another one finds
// nothing there.
func withCaller(next http.Handler) http.Handler {
	return auth.RequireBearerToken(func(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
		caller := access.CallerOf(ctx)
		if caller == nil {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{UserID: caller.Name, Scopes: caller.Roles.Names(), Extra: map[string]any{callerKey: caller}}, nil
	}, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(next)
}

// permit says whether the caller of a request may use what it asks for. Over HTTP it
// is looked at for every message, since a role can change within a session. Over
// stdio there is no caller: the ledger asks for the token of this process.
func (s *Server) permit(method string, req sdk.Request) *api.Error {
	route := "mcp " + method
	switch method {
	case "tools/call":
		if p, ok := req.GetParams().(*sdk.CallToolParamsRaw); ok {
			route += " " + p.Name
		}
	case "resources/list", "resources/read", "resources/subscribe":
	default: // says nothing of the ledger
		return nil
	}
	if !s.mounted.Load() {
		return nil
	}
	caller := &access.Caller{Name: "of nobody"}
	if extra := req.GetExtra(); extra != nil && extra.TokenInfo != nil {
		if c, ok := extra.TokenInfo.Extra[callerKey].(*access.Caller); ok {
			caller = c
		}
	}
	return api.Permit(caller, route)
}

// refusedBy is the answer to what the caller may not do, in the form of its method.
func refusedBy(method string, e *api.Error) (sdk.Result, error) {
	if strings.HasPrefix(method, "tools/") {
		return failed(e), nil
	}
	return nil, protocolError(e)
}
