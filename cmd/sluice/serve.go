package main

import (
	"cmp"
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

	"github.com/spf13/cobra"

	"sluice"
	"sluice/pkg/access"
	"sluice/pkg/dashboard"
	"sluice/pkg/httpapi"
	"sluice/pkg/ratelimit/memstore"
)

// drainTimeout bounds the wait for requests under way when serve is stopped.
const drainTimeout = 10 * time.Second

// gcPercent is how much garbage may pile up beside what is in use, in percent,
// unless GOGC says otherwise. What is in use is little, and the runtime's 100
// would collect many times a second under load to save some 10 MB.
const gcPercent = 400

// The deadlines of a connection. A client that sends a request or reads its
// response too slowly is disconnected. writeTimeout is counted from the request's
// header on; it must be the longer one, so that a request whose body stalls until
// readTimeout still gets its 408.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 60 * time.Second
	idleTimeout       = 2 * time.Minute
)

// defaultDataDir is where serve keeps records and keys unless it is told.
const defaultDataDir = ".sluice"

// serveOptions are the flags of serve.
type serveOptions struct {
	addr     string
	dataDir  string
	dynamodb string
	verbose  bool
}

func serveCommand(getenv func(string) string) *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the service on this machine",
		Long: `Run the service on this machine: the handlers of every route, without AWS and
without other programs. Records live in a file in the data directory and outlive
a restart; rate limit counters live in memory. With --dynamodb both live in DynamoDB tables at that endpoint, such
as DynamoDB Local; the tables are created when they are missing. Export jobs run
in this process, and their files are in the data directory.

The limits are the deployment's and are set the same way: LIMIT_RECORDS,
LIMIT_IMPORTS and LIMIT_REQUESTS, each a second and 200 by default.

Access keys are off: whoever reaches the address can read and write. With
AUTH_MODE=api-key they are on, as they are in a deployment; "sluice keys" makes
them.`,
		Example: `  sluice serve
  ADDR=127.0.0.1:8080 DATA_DIR=/var/lib/sluice sluice serve
  sluice serve --dynamodb http://127.0.0.1:8000
  AUTH_MODE=api-key sluice serve`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), getenv, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&o.addr, "addr", cmp.Or(getenv("ADDR"), "127.0.0.1:3000"), "address to listen on, as host:port (env ADDR)")
	cmd.Flags().StringVar(&o.dataDir, "data-dir", cmp.Or(getenv("DATA_DIR"), defaultDataDir), "directory for the records (env DATA_DIR)")
	cmd.Flags().StringVar(&o.dynamodb, "dynamodb", "", "URL of a DynamoDB endpoint to use in place of the embedded store")
	cmd.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "log every request")
	return cmd
}

// serve runs the service until ctx is done, then finishes the requests in
// progress and closes the stores.
func serve(ctx context.Context, getenv func(string) string, o serveOptions, stdout, stderr io.Writer) (err error) {
	level := slog.LevelWarn
	if o.verbose {
		level = slog.LevelInfo
	}
	logger := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	cfg, err := loadConfig(getenv)
	if err != nil {
		return err
	}
	b, err := openBackend(ctx, getenv, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	exports, err := openExports(b, o.dataDir, getenv, logger)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.addr)
	if err != nil {
		return fmt.Errorf("%w (choose another address with --addr or ADDR)", err)
	}
	handler, err := newHandler(cfg, listener.Addr(), b, logger)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	if getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	running, stop := context.WithCancel(ctx)
	defer func() { stop(); exports.runner.Wait() }() // unfinished jobs continue at the next start
	if err := exports.start(running); err != nil {
		return errors.Join(err, listener.Close())
	}
	greet(stdout, listener.Addr(), b, cfg)
	return listenUntil(ctx, newServer(exports.beside(handler), logger), listener, stdout)
}

// loadConfig is httpapi.LoadConfig with another default: a deployment asks for
// API keys unless told otherwise, a developer's machine does not.
func loadConfig(getenv func(string) string) (httpapi.Config, error) {
	return httpapi.LoadConfig(func(name string) string {
		if value := getenv(name); value != "" || name != "AUTH_MODE" {
			return value
		}
		return "none"
	})
}

// openBackend opens the stores that the flags ask for.
func openBackend(ctx context.Context, getenv func(string) string, o serveOptions) (*backend, error) {
	if o.dynamodb != "" {
		return openDynamoDB(ctx, getenv, o.dynamodb)
	}
	return openEmbedded(o.dataDir)
}

// listenUntil serves until ctx is done, then waits for the requests in progress.
func listenUntil(ctx context.Context, server *http.Server, listener net.Listener, stdout io.Writer) error {
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

// newHandler returns the handlers of all routes over the stores of b.
//
// While API keys are off, a server on a loopback address only serves loopback
// host names: a web page whose own name was rebound to that address could read
// everything otherwise.
func newHandler(cfg httpapi.Config, addr net.Addr, b *backend, logger *slog.Logger) (http.Handler, error) {
	limiter, err := cfg.Limiter(b.counters, memstore.New())
	if err != nil {
		return nil, err
	}
	keys, err := access.NewAuthenticator(b.keys, nil)
	if err != nil {
		return nil, err
	}
	stores := b.stores
	stores.OpenAPI, stores.Dashboard = sluice.OpenAPI, dashboard.Files()
	return httpapi.New(limiter, stores, httpapi.Options{
		Access: keys, AccessOff: cfg.AccessOff,
		IPv6Prefix: cfg.IPv6Prefix, ClientIPHeader: cfg.ClientIPHeader, OriginSecrets: cfg.OriginSecrets,
		LoopbackOnly: cfg.AccessOff && isLoopback(addr), Logger: logger,
	})
}

// newServer returns the server of handler with the deadlines of a connection.
func newServer(handler http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),

		// "OPTIONS *" gets the response of the default route.
		DisableGeneralOptionsHandler: true,
	}
}

// greet says where the service is, who may use it and what to try.
func greet(w io.Writer, addr net.Addr, b *backend, cfg httpapi.Config) {
	url := "http://" + addr.String()
	keys, header := "off: whoever reaches this address can read and write", ""
	if !cfg.AccessOff {
		keys, header = "on", ` -H "Authorization: Bearer $KEY"`
	}
	fmt.Fprintf(w, `Sluice listens on %s
  records in %s, rate limit counters in %s
  limits per address and second: %d records, %d imports, %d requests a route
  the dashboard is at %s/dashboard
  access keys are %s
`, url, b.records, b.countersIn, cfg.Limits.Records, cfg.Limits.Imports, cfg.Limits.Requests, url, keys)
	if !cfg.AccessOff {
		fmt.Fprintf(w, `
Make a key ("go run ./cmd/sluice" in place of "sluice" in a checkout):
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

Ctrl-C stops it.
`, url, header)
	if cfg.AccessOff && !isLoopback(addr) {
		fmt.Fprintf(w, "\nWarning: %s can be reached from other machines, and access keys are off. Set AUTH_MODE=api-key.\n", addr)
	}
}

// isLoopback reports whether addr can be reached only from this machine.
func isLoopback(addr net.Addr) bool {
	host, err := netip.ParseAddrPort(addr.String())
	return err == nil && host.Addr().IsLoopback()
}
