package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"counterfoil/ledger/receipt"
)

// verified is the answer to receipt_verify. A verdict of failed or not_judged is
// an answer, not an error.
type verified struct {
	Status receipt.Status `json:"status"`
	// Shortened is true if checks were left out to stay within the bounds of an
	// answer: the first line of each name is there, and all are counted.
	Shortened bool            `json:"shortened"`
	Report    *receipt.Report `json:"report"`
}

func (s *Server) verify(ctx context.Context, _ *sdk.CallToolRequest, args []byte) (any, error) {
	var a struct {
		Bundle       string   `json:"bundle"`
		AttemptIDs   []string `json:"attemptIds"`
		MinSize      uint64   `json:"minSize"`
		AllowPartial bool     `json:"allowPartial"`
	}
	if err := decodeArgs(args, &a); err != nil {
		return nil, err
	}
	if (a.Bundle == "") == (len(a.AttemptIDs) == 0) {
		return nil, invalid("", "send the text of a bundle, or name attempts of this ledger", "want one of bundle and attemptIds")
	}
	file, err := s.trustFile()
	if err != nil {
		s.cfg.Logger.Error("the trust file cannot be used", "error", err)
		return judged(receipt.NotJudgedReport(receipt.CheckTrust, "the trust file that this server is configured with cannot be used; see its log"))
	}
	raw := []byte(a.Bundle)
	if a.Bundle == "" {
		if err := checkAttempts(a.AttemptIDs); err != nil {
			return nil, err
		}
		if raw, err = s.cfg.Ledger.Bundle(ctx, a.AttemptIDs); err != nil {
			return nil, err
		}
	}
	return judged(receipt.Verify(raw, file, receipt.Options{MinSize: a.MinSize, AllowPartial: a.AllowPartial}))
}

// judged fits a report into an answer.
func judged(r *receipt.Report) (any, error) {
	out := &verified{Status: r.Status, Report: r}
	b, err := encode(out)
	if err != nil || len(b) <= MaxAnswerBytes {
		return out, err
	}
	short, seen := *r, map[string]bool{}
	short.Checks = nil
	for _, c := range r.Checks {
		if !seen[c.Name] {
			seen[c.Name] = true
			short.Checks = append(short.Checks, c)
		}
	}
	short.Signatures.Keys = short.Signatures.Keys[:min(len(short.Signatures.Keys), maxKeys)]
	return &verified{Status: r.Status, Shortened: true, Report: &short}, nil
}

// maxKeys bounds the keys of a report that is shortened.
const maxKeys = 64
