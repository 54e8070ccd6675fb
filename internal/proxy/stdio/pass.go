package stdio

import (
	"context"
	"errors"
	"fmt"
	"os"

	"counterfoil/internal/proxy/traffic"
)

// passToServer passes on what the client sends, until its end.
func (p *process) passToServer(ctx context.Context) {
	for {
		group := p.fromClient.take()
		if len(group) == 0 {
			break
		}
		for len(group) > 0 && !group[0].HoldsCall() {
			p.toServer(group[0]) // waits for nothing
			group = group[1:]
		}
		if len(group) == 0 {
			continue
		}
		p.cfg.Conn.Decide(ctx, group...)
		for _, packet := range group {
			p.toServer(packet)
		}
	}
	_ = p.in.Close() // the server sees the end of its input
}

func (p *process) toServer(packet *traffic.Packet) {
	if packet.Refused() {
		if answer := packet.Refusal(); len(answer) > 0 {
			p.toClient(append(answer, '\n'))
		}
		return
	}
	p.cfg.Conn.Leaving(packet)
	n, err := p.in.Write(packet.Raw)
	if err == nil {
		p.cfg.Conn.Left(packet)
		return
	}
	p.cfg.Conn.NotSent(packet, n == 0, "server_exited")
	if !errors.Is(err, os.ErrClosed) {
		p.cfg.Log.Info("the server takes no more input", "error", err.Error())
	}
}

// passToClient passes on what the server sends, until its end.
func (p *process) passToClient() {
	for {
		group := p.fromServer.take()
		if len(group) == 0 {
			return
		}
		// All outcomes of a group are on their way before the first is waited
		// for.
		outcomes := make([][]<-chan struct{}, len(group))
		for i, packet := range group {
			outcomes[i] = p.cfg.Conn.Answered(packet)
		}
		for i, packet := range group {
			if !p.cfg.Async {
				p.cfg.Conn.Wait(context.Background(), outcomes[i])
			}
			p.toClient(packet.Raw)
			p.cfg.Conn.Forwarded(packet)
		}
	}
}

// toClient writes to the client. When that fails the client is gone.
func (p *process) toClient(line []byte) {
	p.write.Lock()
	_, err := p.cfg.Stdout.Write(line)
	p.write.Unlock()
	if err != nil {
		p.fail(fmt.Errorf("write to the client: %w", err))
	}
}
