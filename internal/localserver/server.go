// Package localserver runs the whole service in one process: the handlers of all routes, the
// job workers, and the stores. The data is in files and memory, or in tables at a DynamoDB
// endpoint.
package localserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"time"

	"sluice"
	"sluice/pkg/access"
	"sluice/pkg/dashboard"
	"sluice/pkg/entity"
	"sluice/pkg/httpapi"
	"sluice/pkg/memory"
	"sluice/pkg/ratelimit"
)

// drainTimeout is how long Run waits for requests in progress before it returns.
const drainTimeout = 10 * time.Second

// gcPercent is the garbage collector's target unless GOGC is set. Go's default of 100 would
// save only about 10 MB, because the live heap is small, but cause many collections per second
// under load.
const gcPercent = 400

// The server disconnects clients that send a request or read a response too slowly.
// writeTimeout starts after the request header. It is longer than readTimeout, so that the
// server can still send a 408 if a request body stalls.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 60 * time.Second
	idleTimeout       = 2 * time.Minute
)

// maxHeaderBytes bounds the headers and the request line together. net/http reads 4 KB more, and
// 8 KB more if it is not the first request of a connection, so the bound is 12 or 16 KB. API
// Gateway's is 10 KB.
const maxHeaderBytes = 8 << 10

type Options struct {
	Addr string // host:port to listen on

	// DataDir contains the export files and, if DynamoDB is empty, all other data except the
	// counters, which are in memory. Run creates it if necessary.
	DataDir string

	// DynamoDB is the URL of a DynamoDB endpoint for all data except export files; "" for none.
	DynamoDB string

	// Importer is a directory into which "make importer" builds the dashboard's importer, while
	// the server runs or before; "" for the importer in this program, if it has one.
	Importer string

	Backups Backups

	Log     string // format of the log, "json" or "text", with a line for every request; "" for a log without the requests that succeed
	Metrics string // address at which to serve metrics for Prometheus; "" for none
	Pprof   string // loopback address at which to serve net/http/pprof; "" for none
}

// Run runs the server until ctx is done, and then finishes the requests in progress and closes
// the stores. It uses getenv to read the same environment variables as a deployment. Run prints
// the address to stdout and logs to stderr.
func Run(ctx context.Context, getenv func(string) string, o Options, stdout, stderr io.Writer) (err error) {
	logger, err := newLogger(o.Log, stderr)
	if err != nil {
		return err
	}
	cfg, err := loadConfig(getenv)
	if err != nil {
		return err
	}
	b, err := openBackend(ctx, getenv, o, entity.Clock{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	jobs, err := openBackground(b, o.DataDir, getenv, logger)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return fmt.Errorf("%w (choose another address with --addr or ADDR)", err)
	}
	defer listener.Close() //nolint:errcheck // the server closes the listener too
	stopMetrics, err := startMetrics(o.Metrics, b, jobs, stdout)
	if err != nil {
		return err
	}
	defer stopMetrics()
	handler, err := newHandler(cfg, listener.Addr(), b, logger)
	if err != nil {
		return err
	}
	pages, err := withCORS(handler, getenv)
	if err != nil {
		return err
	}
	stopProfiles, err := startProfiles(o.Pprof, stdout)
	if err != nil {
		return err
	}
	defer stopProfiles()
	tuneGC(getenv)
	running, stop := context.WithCancel(ctx)
	defer func() { stop(); jobs.wait() }() // unfinished jobs continue at the next start
	stopBackups, err := startBackups(running, o.Backups, b.embedded, logger)
	if err != nil {
		return err
	}
	defer func() { stop(); stopBackups() }()
	if err := jobs.start(running); err != nil {
		return err
	}
	followImporter(running, o.Importer, handler)
	greet(stdout, listener.Addr(), b, cfg)
	server := newServer(pages, logger)
	bounded := newListener(listener, descriptors(), cfg, logger)
	bounded.attach(server, handler.UnchargedHeaders)
	return serve(ctx, server, bounded, stdout)
}

func tuneGC(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// loadConfig is like httpapi.LoadConfig, except that API keys are off by default and no metrics are
// logged.
func loadConfig(getenv func(string) string) (httpapi.Config, error) {
	return httpapi.LoadConfig(func(name string) string {
		switch value := getenv(name); {
		case name == "AUTH_MODE" && value == "":
			return "none"
		case name == "SERVICE_NAME":
			return ""
		default:
			return value
		}
	})
}

func serve(ctx context.Context, server *http.Server, listener net.Listener, stdout io.Writer) error {
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	fmt.Fprintln(stdout, "\nStopping: finishing the requests in progress.")
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		return fmt.Errorf("requests were still in progress after %s: %w", drainTimeout, err)
	}
	fmt.Fprintln(stdout, "Stopped.")
	return nil
}

// newHandler serves all routes with the stores of b.
//
// If API keys are off, a server on a loopback address accepts only loopback host names.
// Otherwise a web page could read all records by DNS rebinding, that is, by making its host
// name resolve to the loopback address.
func newHandler(cfg httpapi.Config, addr net.Addr, b *backend, logger *slog.Logger) (*httpapi.API, error) {
	if err := cfg.CheckAdmin(isLoopback(addr)); err != nil {
		return nil, err
	}
	rows, err := ratelimit.NewRowCache(b.limits, ratelimit.RowCacheConfig{MaxAge: cfg.LimitsMaxAge})
	if err != nil {
		return nil, err
	}
	limiter, err := cfg.Limiter(b.counters, memory.NewCounters())
	if err != nil {
		return nil, err
	}
	keys, err := access.NewAuthenticator(b.keys, nil)
	if err != nil {
		return nil, err
	}
	stores := b.stores
	stores.OpenAPI, stores.Dashboard = sluice.OpenAPI, dashboard.Files()
	return httpapi.New(limiter, stores, httpapi.Options{Config: cfg, Access: keys, Rows: rows, ServiceID: httpapi.NewServiceID(b.serviceID), LoopbackOnly: cfg.AccessOff && isLoopback(addr), Writable: b.writable, Observe: b.observe, Logger: logger})
}

func newServer(handler http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),

		// Without this, net/http itself would respond to "OPTIONS *".
		DisableGeneralOptionsHandler: true,
	}
}

// greet prints the service's address, its settings and some commands to try.
func greet(w io.Writer, addr net.Addr, b *backend, cfg httpapi.Config) {
	url := "http://" + addr.String()
	keys, header := "off: anyone who can reach this address can read and write", ""
	if !cfg.AccessOff {
		keys, header = "on", ` -H "Authorization: Bearer $KEY"`
	}
	fmt.Fprintf(w, `Sluice listens on %s
  records in %s, rate limit counters in %s%s
  limits per address and second: %d records, %d imports, %d requests per route
  the dashboard is at %s/dashboard
  API keys are %s
`, url, b.records, b.countersIn, b.note, cfg.Limits.Records, cfg.Limits.Imports, cfg.Limits.Requests, url, keys)
	if !cfg.AccessOff {
		fmt.Fprintf(w, `
Create a key (in a clone of the repository, write "go run ./cmd/sluice" for "sluice"):
  KEY=$(sluice keys create %s --scope import --scope export)
`, b.keyFlags)
	}
	fmt.Fprintf(w, `
Try:
  curl -i%[2]s %[1]s/create_entity -H 'Content-Type: application/json' -d '{"id":"ada","type":"person","attributes":{"born":1815}}'
  curl -i%[2]s %[1]s/entity/ada
  curl -i%[2]s '%[1]s/entity?limit=50'
  curl -i%[2]s %[1]s/create_event -H 'Content-Type: application/json' -d '{"name":"signed_up","entity_id":"ada"}'
  curl -i%[2]s %[1]s/event

Ctrl-C stops the server.
`, url, header)
	if cfg.AccessOff && !isLoopback(addr) {
		fmt.Fprintf(w, "\nWarning: %s can be reached from other machines, and API keys are off. Set AUTH_MODE=api-key.\n", addr)
	}
}

// isLoopback reports whether addr can be reached only from this machine.
func isLoopback(addr net.Addr) bool {
	host, err := netip.ParseAddrPort(addr.String())
	return err == nil && host.Addr().IsLoopback()
}
