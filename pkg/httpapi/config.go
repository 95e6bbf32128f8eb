package httpapi

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/pkg/exportjob"
	"sluice/pkg/override"
	"sluice/pkg/ratelimit"
)

// Config is the configuration that all routes share. Each field comes from the
// environment variable that its comment names.
type Config struct {
	// Limits are the default limits, per second. LIMIT_RECORDS is 1 to 1,000,000;
	// LIMIT_IMPORTS and LIMIT_REQUESTS are 1 to 900. The default of each is 200.
	Limits ratelimit.Limits

	// IPv6Prefix is CLIENT_IPV6_PREFIX: the number of bits of an IPv6 address that
	// identify a client, 1 to 128. The default is 64.
	IPv6Prefix int

	// ClientIPHeader is CLIENT_IP_HEADER: the header in which a trusted proxy sends
	// the client's address. The default is none.
	ClientIPHeader string

	// OriginSecrets are ORIGIN_SECRET: one or more secrets of the trusted proxy,
	// separated by commas. The default is none.
	OriginSecrets []string

	// FailOpen is true if FAILURE_MODE is "open" and false if it is "closed", the
	// default.
	FailOpen bool

	// Service is SERVICE_NAME: the dimension Service of the metrics. If empty, no
	// metrics are reported.
	Service string

	// AccessOff is true if AUTH_MODE is "none" and false if it is "api-key", the
	// default.
	AccessOff bool

	// ExportJobs is EXPORT_JOBS_PER_WORKSPACE: the maximum number of unfinished export
	// jobs per workspace, 1 to 100. The default is exportjob.DefaultQuota.
	ExportJobs int

	// LimitsMaxAge is LIMITS_MAX_AGE: the age at which an instance reads the table of
	// limits again, 1s to 60s. The default is 60s.
	LimitsMaxAge time.Duration
}

// LoadConfig reads a Config from environment variables. An empty variable has its
// default. LoadConfig returns an error that names the variable if a value is invalid.
func LoadConfig(getenv func(string) string) (Config, error) {
	const maxLimit = 1_000_000
	c := Config{ClientIPHeader: getenv("CLIENT_IP_HEADER"), Service: getenv("SERVICE_NAME")}
	var prefix, exportJobs int64
	var err error
	for _, v := range []struct {
		name      string
		dst       *int64
		otherwise int64
		most      int64
	}{
		{"LIMIT_RECORDS", &c.Limits.Records, ratelimit.DefaultLimit, maxLimit},
		{"LIMIT_IMPORTS", &c.Limits.Imports, ratelimit.DefaultLimit, maxLimit},
		{"LIMIT_REQUESTS", &c.Limits.Requests, ratelimit.DefaultLimit, maxLimit},
		{"CLIENT_IPV6_PREFIX", &prefix, ratelimit.DefaultIPv6Prefix, 128},
		{"EXPORT_JOBS_PER_WORKSPACE", &exportJobs, exportjob.DefaultQuota, 100},
	} {
		*v.dst = v.otherwise
		text := getenv(v.name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 || n > v.most {
			return Config{}, fmt.Errorf("%s=%q must be a whole number from 1 to %d", v.name, text, v.most)
		}
		*v.dst = n
	}
	if _, err := c.Limits.Check(0); err != nil {
		return Config{}, fmt.Errorf("LIMIT_IMPORTS or LIMIT_REQUESTS: %w", err)
	}
	c.IPv6Prefix, c.ExportJobs = int(prefix), int(exportJobs)
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
		return override.MaxAge, nil
	}
	age, err := time.ParseDuration(text)
	if err != nil || age < time.Second || age > override.MaxAge {
		return 0, fmt.Errorf("LIMITS_MAX_AGE=%q must be a duration from 1s to %v", text, override.MaxAge)
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

// Limiter returns a rate limiter that counts in store and applies the rows to single
// addresses. If FailOpen is set, the limiter counts in fallback while store fails.
// fallback counts only for this instance.
func (c Config) Limiter(store, fallback ratelimit.Store, rows *override.Cache) (*ratelimit.Limiter, error) {
	cfg := ratelimit.Config{Limits: c.Limits, LimitsFor: rows.Limits}
	if c.FailOpen {
		cfg.Fallback = fallback
	}
	return ratelimit.New(store, cfg)
}
