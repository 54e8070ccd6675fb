package rpc

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"counterfoil/internal/api"
	"counterfoil/ledger/intake"
	v1 "counterfoil/proto/counterfoil/v1"
)

// codes are the codes of the HTTP interface in those of RPC.
var codes = map[string]connect.Code{
	api.CodeInvalid:      connect.CodeInvalidArgument,
	api.CodeUnauthorized: connect.CodeUnauthenticated,
	api.CodeForbidden:    connect.CodePermissionDenied,
	api.CodeRateLimited:  connect.CodeResourceExhausted,
	api.CodeNotFound:     connect.CodeNotFound,
	api.CodeMethod:       connect.CodeUnimplemented,
	api.CodeConflict:     connect.CodeAlreadyExists,
	api.CodeUnlawful:     connect.CodeFailedPrecondition,
	// The attempt is there, so it is not not_found, and no call can bring its
	// content back, so it is not unavailable.
	api.CodeErased:      connect.CodeFailedPrecondition,
	api.CodeTooLarge:    connect.CodeResourceExhausted,
	api.CodeUnavailable: connect.CodeUnavailable,
	api.CodeInternal:    connect.CodeInternal,
}

// maxText bounds each text of an error: gRPC sends errors in trailers, which
// clients bound to a few KiB, and a message may quote what the caller sent.
const maxText = 512

// worded is an error with its one detail.
func worded(e *api.Error) *connect.Error {
	code, ok := codes[e.Code]
	if !ok {
		code = connect.CodeInternal
	}
	out := connect.NewError(code, errors.New(cut(e.Message)))
	detail, err := connect.NewErrorDetail(&v1.ErrorDetail{
		Code: e.Code, Message: cut(e.Message), Path: cut(e.Path), Hint: cut(e.Hint), EventId: e.EventID,
		Stored: e.Stored, Offered: e.Offered, Reason: e.Reason, State: e.State,
	})
	if err == nil { // a message of valid texts can be packed
		out.AddDetail(detail)
	}
	if n := e.RetryAfter(); n > 0 {
		out.Meta().Set("Retry-After", strconv.Itoa(n))
	}
	return out
}

func cut(s string) string {
	if len(s) > maxText {
		s = s[:maxText] + "…"
	}
	return strings.ToValidUTF8(s, "")
}

// explainer turns the errors of handlers into words for callers, and refuses
// requests with fields that would be ignored.
type explainer struct{ api *api.Server }

func (x *explainer) explain(ctx context.Context, spec connect.Spec, err error) error {
	var own *connect.Error
	if errors.As(err, &own) { // the protocol's own: it read no request
		return own
	}
	e := x.api.Explain(spec.Procedure, err)
	if out, ok := ctx.Value(outcomeKey{}).(*outcome); ok {
		out.status = e.Status()
	}
	return worded(e)
}

// WrapUnary implements connect.Interceptor.
func (x *explainer) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if m, ok := req.Any().(proto.Message); ok && hasUnknown(m.ProtoReflect()) {
			return nil, x.explain(ctx, req.Spec(), errUnknownField)
		}
		res, err := next(ctx, req)
		if err != nil {
			return nil, x.explain(ctx, req.Spec(), err)
		}
		return res, nil
	}
}

// WrapStreamingHandler implements connect.Interceptor.
func (x *explainer) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if err := next(ctx, conn); err != nil {
			return x.explain(ctx, conn.Spec(), err)
		}
		return nil
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (x *explainer) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

var errUnknownField = &intake.RequestError{Detail: "the request has a field that this ledger does not know",
	Hint: "nothing is ignored in silence: use the schema in proto/counterfoil/v1 of the ledger's version"}
