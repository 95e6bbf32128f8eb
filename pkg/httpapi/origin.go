package httpapi

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// originSecretHeader is the header in which a trusted proxy, such as CloudFront, sends its
// secret.
const originSecretHeader = "X-Origin-Secret"

// viewerAddressHeader is the header in which CloudFront sends the client's address and port,
// separated by a colon, without brackets around IPv6. Source: CloudFront Developer Guide, "Add
// CloudFront request headers".
const viewerAddressHeader = "CloudFront-Viewer-Address"

// fromProxy reports whether r carries an origin secret, or the service requires none.
func (s *service) fromProxy(r *http.Request) bool {
	if len(s.OriginSecrets) == 0 {
		return true
	}
	given := []byte(r.Header.Get(originSecretHeader))
	for _, secret := range s.OriginSecrets {
		if subtle.ConstantTimeCompare(given, []byte(secret)) == 1 {
			return true
		}
	}
	return false
}

// clientAddress returns the address of the connection or, if r came through the proxy, the
// last address in the trusted header, without the port that some proxies add (Azure Application
// Gateway). Clients can forge the addresses before the last.
func (s *service) clientAddress(r *http.Request) string {
	if s.ClientIPHeader == "" || !s.fromProxy(r) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			return r.RemoteAddr
		}
		return host
	}
	values := r.Header.Values(s.ClientIPHeader)
	if len(values) == 0 {
		return ""
	}
	last := values[len(values)-1]
	last = strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])
	if strings.EqualFold(s.ClientIPHeader, viewerAddressHeader) {
		return strings.Trim(last[:max(strings.LastIndexByte(last, ':'), 0)], "[]")
	}
	if withPort, err := netip.ParseAddrPort(last); err == nil {
		return withPort.Addr().String()
	}
	return last
}

// invalidAddress returns the error (400) for a client whose address cannot be parsed. The request
// is not charged, because unrelated clients would then share a counter.
func (s *service) invalidAddress() error {
	if s.ClientIPHeader != "" {
		return badRequest("invalid_client_address", "the header "+s.ClientIPHeader+" must end in the client's IP address; send the request through the proxy that sets it")
	}
	return badRequest("invalid_client_address", "the source address of the connection is not an IP address")
}

// checkHost rejects requests that bypass the trusted proxy and, with LoopbackOnly, requests whose
// Host is not a loopback name.
func (s *service) checkHost(r *request) error {
	if !s.fromProxy(r.Request) {
		r.log.refused = refusedDirect
		return &apiError{status: http.StatusForbidden, code: "direct_request",
			detail: "the service does not accept requests at this address; send them to its public host name"}
	}
	if s.LoopbackOnly && !isLoopback(r.Host) {
		r.log.refused = refusedHost
		return &apiError{status: http.StatusForbidden, code: "unknown_host",
			detail: "while API keys are off, the service accepts only loopback host names; use localhost or 127.0.0.1, or turn API keys on"}
	}
	return nil
}

// isLoopback reports whether a Host header names the loopback interface. If a page makes its own
// host name resolve to that interface (DNS rebinding), the browser still sends the page's name.
func isLoopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	addr, err := netip.ParseAddr(host)
	if err == nil {
		return addr.IsLoopback()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
