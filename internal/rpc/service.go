package rpc

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"

	"connectrpc.com/connect"

	"counterfoil/internal/api"
	v1 "counterfoil/proto/counterfoil/v1"
)

// service implements counterfoilv1connect.LedgerServiceHandler.
type service struct{ api *api.Server }

func (s *service) Begin(ctx context.Context, r *v1.BeginRequest) (*v1.BeginResponse, error) {
	b, err := beginBody(r)
	if err != nil {
		return nil, err
	}
	rc, created, err := s.api.Begin(ctx, b, r.GetWait())
	if err != nil {
		return nil, err
	}
	m, err := convert(rc, new(v1.Receipt))
	return &v1.BeginResponse{Receipt: m, Created: created}, err
}

func (s *service) Append(ctx context.Context, r *v1.AppendRequest) (*v1.AppendResponse, error) {
	b, err := appendBody(r)
	if err != nil {
		return nil, err
	}
	rc, created, err := s.api.Append(ctx, b, r.GetAttemptId(), r.GetWait())
	if err != nil {
		return nil, err
	}
	m, err := convert(rc, new(v1.Receipt))
	return &v1.AppendResponse{Receipt: m, Created: created}, err
}

func (s *service) GetAttempt(ctx context.Context, r *v1.GetAttemptRequest) (*v1.GetAttemptResponse, error) {
	a, err := s.api.Attempt(ctx, r.GetAttemptId())
	if err != nil {
		return nil, err
	}
	m, err := convert(a, new(v1.Attempt))
	return &v1.GetAttemptResponse{Attempt: m}, err
}

func (s *service) ListAttempts(ctx context.Context, r *v1.ListAttemptsRequest) (*v1.ListAttemptsResponse, error) {
	q := query{}.text("state", r.GetState()).text("tool", r.GetTool()).text("agent", r.GetAgent()).text("from", r.GetFrom()).text("to", r.GetTo())
	page, err := s.api.Attempts(ctx, q.page(r.GetLimit(), r.GetPageToken(), r.GetOrder()))
	if err != nil {
		return nil, err
	}
	out := &v1.ListAttemptsResponse{NextPageToken: page.NextPageToken, TreeSize: page.TreeSize}
	for _, a := range page.Attempts {
		m, err := convert(a, new(v1.AttemptSummary))
		if err != nil {
			return nil, err
		}
		out.Attempts = append(out.Attempts, m)
	}
	return out, nil
}

func (s *service) GetReceipt(ctx context.Context, r *v1.GetReceiptRequest) (*v1.GetReceiptResponse, error) {
	rc, err := s.api.Receipt(ctx, r.GetEventId())
	if err != nil {
		return nil, err
	}
	m, err := convert(rc, new(v1.Receipt))
	return &v1.GetReceiptResponse{Receipt: m}, err
}

func (s *service) ListReceipts(ctx context.Context, r *v1.ListReceiptsRequest) (*v1.ListReceiptsResponse, error) {
	q := query{}.text("tool", r.GetTool()).text("agent", r.GetAgent()).text("runtime", r.GetRuntime()).text("status", r.GetStatus()).
		text("lifecycle", r.GetLifecycle()).text("kind", r.GetKind()).text("from", r.GetFrom()).text("to", r.GetTo())
	page, err := s.api.Receipts(ctx, q.page(r.GetLimit(), r.GetPageToken(), r.GetOrder()))
	if err != nil {
		return nil, err
	}
	out := &v1.ListReceiptsResponse{NextPageToken: page.NextPageToken, TreeSize: page.TreeSize}
	for _, rc := range page.Receipts {
		m, err := convert(rc, new(v1.Receipt))
		if err != nil {
			return nil, err
		}
		out.Receipts = append(out.Receipts, m)
	}
	return out, nil
}

func (s *service) ExportBundle(ctx context.Context, r *v1.ExportBundleRequest) (*v1.ExportBundleResponse, error) {
	b, err := s.api.Bundle(ctx, r.GetAttemptIds())
	return &v1.ExportBundleResponse{BundleJson: b}, err
}

func (s *service) GetTlogProof(ctx context.Context, r *v1.GetTlogProofRequest) (*v1.GetTlogProofResponse, error) {
	b, err := s.api.TlogProof(ctx, r.GetEventId())
	return &v1.GetTlogProofResponse{TlogProof: b}, err
}

func (s *service) ListParked(ctx context.Context, r *v1.ListParkedRequest) (*v1.ListParkedResponse, error) {
	page, err := s.api.Parked(ctx, query{}.page(r.GetLimit(), r.GetPageToken(), r.GetOrder()))
	if err != nil {
		return nil, err
	}
	out := &v1.ListParkedResponse{NextPageToken: page.NextPageToken, TreeSize: page.TreeSize}
	for _, l := range page.Parked {
		m, err := convert(l, new(v1.ParkedLeaf))
		if err != nil {
			return nil, err
		}
		out.Parked = append(out.Parked, m)
	}
	return out, nil
}

func (s *service) GetStatus(ctx context.Context, _ *v1.GetStatusRequest) (*v1.GetStatusResponse, error) {
	m, err := convert(s.api.Status(ctx), new(v1.Status))
	return &v1.GetStatusResponse{Status: m}, err
}

func (s *service) GetTrust(context.Context, *v1.GetTrustRequest) (*v1.GetTrustResponse, error) {
	return &v1.GetTrustResponse{TrustJson: bytes.TrimSuffix(s.api.Trust(), []byte("\n"))}, nil
}

// errStopping ends a stream that was to go on: a client that resumes at the
// index after its last misses nothing.
var errStopping = &api.Unavailable{Reason: "stopping", Message: "the ledger is stopping; resume at the index after your last"}

func (s *service) StreamEvents(ctx context.Context, r *v1.StreamEventsRequest, out *connect.ServerStream[v1.StreamEventsResponse]) error {
	if hasUnknown(r.ProtoReflect()) {
		return errUnknownField
	}
	nothing := func() error { return nil } // each message is flushed; HTTP/2 has pings of its own
	// Headers at once: a client that waits for them must not wait for an event.
	gone := out.Send(nil)
	if gone != nil {
		return gone
	}
	err := s.api.Events(ctx, r.GetFrom(), !r.GetStopAtPublished(), api.Follower{Flush: nothing, Ping: nothing,
		Event: func(e *api.StreamedEvent) error {
			hash, err := base64.StdEncoding.DecodeString(e.LeafHash)
			if err != nil {
				gone = fmt.Errorf("leaf hash of %d: %w", e.LeafIndex, err)
				return gone
			}
			gone = out.Send(&v1.StreamEventsResponse{LeafIndex: e.LeafIndex, LeafHash: hash, EventId: e.EventID,
				Record: e.Record, Parked: e.Parked, TreeSize: e.TreeSize})
			return gone
		}})
	switch {
	case err != nil:
		return err
	case gone != nil || ctx.Err() != nil || r.GetStopAtPublished():
		return gone
	}
	return errStopping
}
