package fetch

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// Public returns a transport that connects to public addresses alone. URLs come
// from registry entries, which anybody may publish: without this an entry could
// have the ledger ask services of its own network. The address is judged after
// the name was looked up, so no name leads around it.
//
// Where everything goes through a proxy, the proxy has to keep this rule; this
// transport uses none.
func Public() *http.Transport {
	d := &net.Dialer{Timeout: 10 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		return checkPublic(address)
	}}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy, t.DialContext = nil, d.DialContext
	t.ResponseHeaderTimeout = 30 * time.Second
	return t
}

// carrier is the address space between carriers and their customers (RFC 6598),
// which some clouds use for services of their own.
var carrier = netip.MustParsePrefix("100.64.0.0/10")

func checkPublic(address string) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %.80q cannot be judged: %w", address, err)
	}
	a := ap.Addr().Unmap()
	switch {
	case !a.IsGlobalUnicast(), a.IsPrivate(), a.IsLoopback(), carrier.Contains(a), !embedded(a).IsGlobalUnicast(), embedded(a).IsPrivate():
		return fmt.Errorf("%s is no public address, and entries name public servers", a)
	}
	return nil
}

// embedded is the IPv4 address inside an IPv6 one that a gateway would use
// (NAT64), or the address itself.
func embedded(a netip.Addr) netip.Addr {
	if netip.MustParsePrefix("64:ff9b::/96").Contains(a) {
		b := a.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}
