package httpapi

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/pkg/exportjob"
	"sluice/pkg/ratelimit"
)

// Config is the configuration that all routes share. Each field comes from the
// environment variable that its comment names.
type Config struct {
	Limits             ratelimit.Limits // LIMIT_RECORDS (1 to 1,000,000), LIMIT_IMPORTS and LIMIT_REQUESTS (1 to 900); 200 by default for each
	IPv6Prefix         int              // CLIENT_IPV6_PREFIX: 1 to 128, 64 by default
	ClientIPHeader     string           // CLIENT_IP_HEADER: the header that the operator's proxy sets; none by default
	OriginSecrets      []string         // ORIGIN_SECRET: one secret, or several separated by commas while they are rotated; none by default
	FailOpen           bool             // FAILURE_MODE: true if the value is "open"; the default is "closed"
	Service            string           // SERVICE_NAME: value of the dimension Service of the metrics; "" for no metrics
	AccessOff          bool             // AUTH_MODE: true if the value is "none"; the default is "api-key"
	ExportJobs         int              // EXPORT_JOBS_PER_WORKSPACE: maximum number of unfinished export jobs of a workspace, 1 to 100, exportjob.DefaultQuota by default
	EventRetentionDays int              // EVENT_RETENTION_DAYS: number of days for which new events are kept, up to 36,500; 0, the default, keeps them forever
	LimitsMaxAge       time.Duration    // LIMITS_MAX_AGE: maximum age of the cached rows of the limits table; 1s to 60s, 60s by default
}

// LoadConfig reads a Config from environment variables. If a variable is empty, its
// field has the default value. If a value is invalid, LoadConfig returns an error that
// names the variable.
func LoadConfig(getenv func(string) string) (Config, error) {
	const maxLimit = 1_000_000
	c := Config{ClientIPHeader: getenv("CLIENT_IP_HEADER"), Service: getenv("SERVICE_NAME")}
	var prefix, exportJobs, retention int64
	var err error
	for _, v := range []struct {
		name      string
		dst       *int64
		otherwise int64
		least     int64
		most      int64
	}{
		{"LIMIT_RECORDS", &c.Limits.Records, ratelimit.DefaultLimit, 1, maxLimit},
		{"LIMIT_IMPORTS", &c.Limits.Imports, ratelimit.DefaultLimit, 1, maxLimit},
		{"LIMIT_REQUESTS", &c.Limits.Requests, ratelimit.DefaultLimit, 1, maxLimit},
		{"CLIENT_IPV6_PREFIX", &prefix, ratelimit.DefaultIPv6Prefix, 1, 128},
		{"EXPORT_JOBS_PER_WORKSPACE", &exportJobs, exportjob.DefaultQuota, 1, 100},
		{"EVENT_RETENTION_DAYS", &retention, 0, 0, 36_500},
	} {
		*v.dst = v.otherwise
		text := getenv(v.name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < v.least || n > v.most {
			return Config{}, fmt.Errorf("%s=%q must be a whole number from %d to %d", v.name, text, v.least, v.most)
		}
		*v.dst = n
	}
	if _, err := c.Limits.Check(0); err != nil {
		return Config{}, fmt.Errorf("LIMIT_IMPORTS or LIMIT_REQUESTS: %w", err)
	}
	c.IPv6Prefix, c.ExportJobs, c.EventRetentionDays = int(prefix), int(exportJobs), int(retention)
	if c.OriginSecrets, err = originSecrets(getenv("ORIGIN_SECRET"), c.ClientIPHeader); err != nil {
		return Config{}, err
	}
	if c.LimitsMaxAge, err = limitsMaxAge(getenv("LIMITS_MAX_AGE")); err != nil {
		return Config{}, err
	}
	switch mode := getenv("FAILURE_MODE"); mode {
	case "", "closed":
	case "open":
		c.FailOpen = true
	default:
		return Config{}, fmt.Errorf("FAILURE_MODE=%q must be closed or open", mode)
	}
	switch mode := getenv("AUTH_MODE"); mode {
	case "", "api-key":
	case "none":
		c.AccessOff = true
	default:
		return Config{}, fmt.Errorf("AUTH_MODE=%q must be api-key or none", mode)
	}
	return c, nil
}

// limitsMaxAge parses the value of LIMITS_MAX_AGE.
func limitsMaxAge(text string) (time.Duration, error) {
	if text == "" {
		return ratelimit.MaxRowAge, nil
	}
	age, err := time.ParseDuration(text)
	if err != nil || age < time.Second || age > ratelimit.MaxRowAge {
		return 0, fmt.Errorf("LIMITS_MAX_AGE=%q must be a duration from 1s to %v", text, ratelimit.MaxRowAge)
	}
	return age, nil
}

// minOriginSecret is the minimum length of an origin secret, in bytes.
const minOriginSecret = 16

// originSecrets parses the value of ORIGIN_SECRET: secrets separated by commas.
func originSecrets(text, clientIPHeader string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	if clientIPHeader == "" {
		return nil, errors.New("ORIGIN_SECRET needs CLIENT_IP_HEADER, the header in which the proxy names the client")
	}
	secrets := strings.Split(text, ",")
	for _, secret := range secrets {
		if len(secret) < minOriginSecret {
			return nil, fmt.Errorf("ORIGIN_SECRET must hold secrets of at least %d characters, separated by commas", minOriginSecret)
		}
	}
	return secrets, nil
}

// Limiter returns a rate limiter that counts requests in the given store. If a row of the
// given cache matches an address, the row's limits apply to the address. If FailOpen is
// set, the limiter uses the fallback store while the first store fails. The fallback store
// must count only the requests of this process.
func (c Config) Limiter(store, fallback ratelimit.Store, rows *ratelimit.RowCache) (*ratelimit.Limiter, error) {
	cfg := ratelimit.Config{Limits: c.Limits, LimitsFor: rows.Limits}
	if c.FailOpen {
		cfg.Fallback = fallback
	}
	return ratelimit.New(store, cfg)
}
