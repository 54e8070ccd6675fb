package mcp

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"counterfoil/internal/api"
)

// URIs of resources. Ids hold no reserved character, so that a template of
// level 1 matches them.
const (
	receiptURI = "counterfoil://receipt/"
	attemptURI = "counterfoil://attempt/"
	mimeJSON   = "application/json"
)

func (s *Server) addResources() {
	s.sdk.AddResourceTemplate(&sdk.ResourceTemplate{Name: "receipt", Title: "Receipt of an event", URITemplate: receiptURI + "{eventId}", MIMEType: mimeJSON,
		Description: "One receipt with its inclusion proof and checkpoint."}, s.read)
	s.sdk.AddResourceTemplate(&sdk.ResourceTemplate{Name: "attempt", Title: "Attempt with its receipts", URITemplate: attemptURI + "{attemptId}", MIMEType: mimeJSON,
		Description: "The state of an attempt and the receipts of its events. Subscribe to it to hear of further events."}, s.read)
	s.sdk.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if e := s.permit(method, req); e != nil {
				return refusedBy(method, e)
			}
			switch method {
			case "resources/list":
				p, _ := req.GetParams().(*sdk.ListResourcesParams)
				return s.listResources(ctx, p)
			case "prompts/list", "prompts/get", "logging/setLevel":
				// The library answers these whether they were offered or not.
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method + " is not offered"}
			}
			return next(ctx, method, req)
		}
	})
}

// listResources is a page of the receipts, newest first. The library's own list
// holds what was registered, and a ledger is not.
func (s *Server) listResources(ctx context.Context, p *sdk.ListResourcesParams) (sdk.Result, error) {
	q := url.Values{"limit": {strconv.Itoa(pageSize)}, "order": {"newest"}}
	if p != nil && p.Cursor != "" {
		q.Set("pageToken", p.Cursor)
	}
	page, err := s.cfg.Ledger.Receipts(ctx, q)
	if err != nil {
		return nil, protocolError(s.explain("resources/list", err))
	}
	out := &sdk.ListResourcesResult{Resources: []*sdk.Resource{}, NextCursor: page.NextPageToken}
	out.CacheScope = "private"
	for _, rc := range page.Receipts {
		out.Resources = append(out.Resources, &sdk.Resource{URI: receiptURI + rc.EventID, Name: rc.EventID, MIMEType: mimeJSON,
			Title: fmt.Sprintf("%s %s: %s", rc.Action.Name, rc.Lifecycle, rc.Action.Status), Description: "at leaf " + strconv.FormatUint(rc.LeafIndex, 10) + " of " + rc.AttemptID})
	}
	return out, nil
}

// read is one receipt or one attempt: one content, of the URI that was asked
// for (MCP-08).
func (s *Server) read(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	uri := req.Params.URI
	var doc *gotten
	var err error
	if id, ok := strings.CutPrefix(uri, receiptURI); ok && isEvent(id) {
		doc, err = s.receipt(ctx, id)
	} else if id, ok := strings.CutPrefix(uri, attemptURI); ok && isAttempt(id) {
		doc, err = s.attempt(ctx, id)
	} else {
		return nil, sdk.ResourceNotFoundError(uri)
	}
	if err != nil {
		e := s.explain("resources/read", err)
		if e.Code == api.CodeNotFound {
			return nil, sdk.ResourceNotFoundError(uri)
		}
		return nil, protocolError(e)
	}
	b, err := encode(doc)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", uri, err)
	}
	if len(b) > MaxAnswerBytes {
		return nil, protocolError(tooLarge(len(b), "read it over HTTP: GET /v1/attempts/{attemptId} or /v1/receipts/{eventId}, or the single receipts of the attempt"))
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: uri, MIMEType: mimeJSON, Text: string(b)}}}, nil
}
