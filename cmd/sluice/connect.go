package main

import (
	"cmp"
	"time"

	"github.com/spf13/cobra"

	api "sluice/pkg/client"
)

const defaultURL = "http://127.0.0.1:3000"

const connectionHelp = `The service is the one at --url or SLUICE_URL, by default ` + defaultURL + `.
Its key is --key or SLUICE_API_KEY; the variable keeps it out of the list of
processes.`

// connection is how to reach a service.
type connection struct {
	getenv func(string) string
	url    string // flags
	key    string
}

// addFlags adds the flags of the connection to a command. Their defaults are empty,
// because help would show the key.
func (c *connection) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.url, "url", "", "URL of the service (env SLUICE_URL)")
	cmd.Flags().StringVar(&c.key, "key", "", "API key (env SLUICE_API_KEY)")
}

// baseURL returns the URL of the service.
func (c *connection) baseURL() string { return cmp.Or(c.url, c.getenv("SLUICE_URL"), defaultURL) }

// client returns a client of the service.
func (c *connection) client(cfg api.Config) (*api.Client, error) {
	cfg.Key = cmp.Or(c.key, c.getenv("SLUICE_API_KEY"))
	cfg.UserAgent = "sluice"
	made, err := api.New(c.baseURL(), cfg)
	if err != nil {
		return nil, usageError("%w", err)
	}
	return made, nil
}

// patientClient is client for commands that move much data: it tries again for long
// enough that the service can be restarted.
func (c *connection) patientClient(cfg api.Config) (*api.Client, error) {
	cfg.MaxTries, cfg.MaxElapsed = 40, 2*time.Minute
	return c.client(cfg)
}
