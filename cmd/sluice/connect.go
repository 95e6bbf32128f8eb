package main

import (
	"cmp"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/cmd/sluice/internal/outage"
	"sluice/pkg/client"
)

const defaultURL = "http://127.0.0.1:3000"

const connectionHelp = `--url or SLUICE_URL selects the service (default ` + defaultURL + `).
--key or SLUICE_API_KEY sets the API key. Other users of this machine can see --key
in the process list, but not the variable.`

type connection struct {
	getenv func(string) string
	url    string   // --url; empty if not set
	key    string   // --key; empty if not set
	share  *float64 // --share; nil if the command does not have this flag
	stderr io.Writer
	outage *outage.Report // set by connect
}

// connectTimeout is short so that an unreachable service is reported soon. The client retries.
const connectTimeout = 1500 * time.Millisecond

// addFlags leaves the defaults empty, because the help text must not show the API key.
func (c *connection) addFlags(cmd *cobra.Command) {
	c.stderr = cmd.ErrOrStderr()
	cmd.Flags().StringVar(&c.url, "url", "", "URL of the service (env SLUICE_URL)")
	cmd.Flags().StringVar(&c.key, "key", "", "API key (env SLUICE_API_KEY)")
}

// addShare adds the flag --share, for commands that read or store many records.
func (c *connection) addShare(cmd *cobra.Command) {
	c.share = cmd.Flags().Float64("share", client.DefaultShare, "part of each limit to use, above 0 and at most 1; leaves the rest to others")
}

func (c *connection) baseURL() string { return cmp.Or(c.url, c.getenv("SLUICE_URL"), defaultURL) }

// client returns a client that prints a line to stderr whenever it retries for lack of a response.
func (c *connection) client(cfg client.Config) (*client.Client, error) {
	return c.connect(cfg, outage.New(c.stderr, c.baseURL(), false))
}

// patientClient is for long-running commands. It retries for up to 2 minutes, long enough for the
// service to restart. If showsProgress is true, the command itself shows the result of
// c.waiting, so on a terminal the client does not report every retry.
func (c *connection) patientClient(cfg client.Config, showsProgress bool) (*client.Client, error) {
	cfg.MaxTries, cfg.MaxElapsed = 40, 2*time.Minute
	return c.connect(cfg, outage.New(c.stderr, c.baseURL(), showsProgress))
}

// connect returns a client that calls report.Note after each try.
func (c *connection) connect(cfg client.Config, report *outage.Report) (*client.Client, error) {
	url := c.baseURL()
	if !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
		setting := "--url"
		if c.url == "" {
			setting = "SLUICE_URL"
		}
		return nil, usageError("%s needs http:// or https://, not %q", setting, url)
	}
	if c.share != nil {
		if cfg.Share = *c.share; !(0 < cfg.Share && cfg.Share <= 1) {
			return nil, usageError("--share must be above 0 and at most 1")
		}
	}
	c.outage = report
	onTry := cfg.OnTry
	cfg.OnTry = func(t client.Try) {
		report.Note(t)
		if onTry != nil {
			onTry(t)
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = transport.MaxIdleConns
	transport.DialContext = (&net.Dialer{Timeout: connectTimeout}).DialContext
	cfg.Transport = transport
	cfg.Key = cmp.Or(c.key, c.getenv("SLUICE_API_KEY"))
	cfg.UserAgent = "sluice"
	made, err := client.New(url, cfg)
	if err != nil {
		return nil, usageError("%w", err)
	}
	return made, nil
}

// waiting says when the next try is due, or returns "" while the service is responding.
func (c *connection) waiting() string { return c.outage.Waiting() }
