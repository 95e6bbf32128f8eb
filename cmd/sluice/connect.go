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

// What commands that can continue bear of a service that does not answer: long
// enough for it to be restarted.
const (
	patientTries   = 40
	patientElapsed = 2 * time.Minute
)

// connection is how to reach a service.
type connection struct {
	getenv   func(string) string
	url, key string
}

// addFlags adds the flags of the connection to a command. Their defaults are not
// those of the flags: help would show the key.
func (c *connection) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.url, "url", "", "URL of the service (env SLUICE_URL)")
	cmd.Flags().StringVar(&c.key, "key", "", "API key (env SLUICE_API_KEY)")
}

// baseURL is the URL of the service.
func (c *connection) baseURL() string { return cmp.Or(c.url, c.getenv("SLUICE_URL"), defaultURL) }

// client makes a client of the service.
func (c *connection) client(cfg api.Config) (*api.Client, error) {
	cfg.Key = cmp.Or(c.key, c.getenv("SLUICE_API_KEY"))
	cfg.UserAgent = "sluice"
	made, err := api.New(c.baseURL(), cfg)
	if err != nil {
		return nil, usageError("%w", err)
	}
	return made, nil
}
