// Package rpc serves the LedgerService of proto/counterfoil/v1 over Connect,
// gRPC and gRPC-Web, on the port of the HTTP interface and behind its
// authentication.
//
// It decides nothing. A call becomes the HTTP interface's request, goes the same
// way and meets the same bounds; the answer is worded in the messages of the
// schema. So a begin that was sent over HTTP and comes again over RPC is the
// same request. docs/spec/rpc.md is the contract.
package rpc

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	"counterfoil/internal/api"
	"counterfoil/ledger/intake"
	v1 "counterfoil/proto/counterfoil/v1"
	"counterfoil/proto/counterfoil/v1/counterfoilv1connect"
)

// maxMessage bounds a request, compressed and not: a private value of 16 MiB in
// base64, which Connect's JSON needs, and the rest. It is the bound of the HTTP
// interface.
const maxMessage = intake.MaxBodyBytes

// Add adds the procedures of the service to a server.
func Add(to *api.Server) {
	_, handler := counterfoilv1connect.NewLedgerServiceHandler(&service{api: to},
		connect.WithReadMaxBytes(maxMessage),
		connect.WithInterceptors(&explainer{to}),
		connect.WithCodec(strictJSON{"json"}), connect.WithCodec(strictJSON{"json; charset=utf-8"}),
	)
	refusal := connect.NewErrorWriter()
	methods := v1.File_counterfoil_v1_ledger_service_proto.Services().ByName("LedgerService").Methods()
	for i := range methods.Len() {
		path := "/" + counterfoilv1connect.LedgerServiceName + "/" + string(methods.Get(i).Name())
		to.Add(api.Procedure{
			Path: path,
			Serve: func(w http.ResponseWriter, r *http.Request) int {
				var out outcome
				handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), outcomeKey{}, &out)))
				return out.status
			},
			Refuse: func(w http.ResponseWriter, r *http.Request, e *api.Error) {
				_ = refusal.Write(w, r, worded(e)) // the client is gone if this fails
			},
		})
	}
}

// outcome is what a call amounts to as an HTTP status, for who counts: in gRPC
// the status line is always 200. It stays 0 if the status line is right.
type outcome struct{ status int }

type outcomeKey struct{}
