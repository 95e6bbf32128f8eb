package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/pkg/exportjob"
	"sluice/pkg/job"
	"sluice/pkg/ratelimit"
)

// Config is the configuration that all routes share. Each field comes from the environment
// variable named in its comment.
type Config struct {
	Limits             ratelimit.Limits // LIMIT_RECORDS (1 to 1,000,000), LIMIT_IMPORTS and LIMIT_REQUESTS (1 to 900); each is 200 per second by default
	IPv6Prefix         int              // CLIENT_IPV6_PREFIX: 1 to 128, 64 by default
	ClientIPHeader     string           // CLIENT_IP_HEADER: the header that the operator's proxy sets; none by default
	OriginSecrets      []string         // ORIGIN_SECRET: one secret, or several separated by commas during a rotation; none by default
	FailOpen           bool             // whether FAILURE_MODE is "open"; the default is "closed"
	Service            string           // SERVICE_NAME: value of the metric dimension Service; "" for no metrics
	Metrics            string           // METRICS: MetricsAll, MetricsService (the default) or MetricsNone
	AccessOff          bool             // whether AUTH_MODE is "none"; the default is "api-key"
	AdminRoutes        bool             // whether ADMIN_ROUTES is "on"; the default is "off"
	ExportJobs         int              // EXPORT_JOBS_PER_WORKSPACE: maximum number of unfinished export jobs in a workspace, 1 to 100; 10 by default
	EventRetentionDays int              // EVENT_RETENTION_DAYS: how many days new events are kept, up to 36,500; 0 (the default) means forever
	LimitsMaxAge       time.Duration    // LIMITS_MAX_AGE: maximum age of cached limits, 1s to 60s; 60s by default
}

// Values of Config.Metrics.
const (
	MetricsAll     = "all"     // each metric for the service, and once more for each route
	MetricsService = "service" // each metric for the service
	MetricsNone    = "none"    // failures, which alarms watch, for the service
)

// LoadConfig reads the environment variables of a [Config]. An empty variable means the default.
// An error names the variable at fault.
func LoadConfig(getenv func(string) string) (Config, error) {
	const maxLimit = 1_000_000
	e := environment{getenv: getenv}
	c := Config{
		Limits: ratelimit.Limits{
			Records:  e.number("LIMIT_RECORDS", ratelimit.DefaultLimit, 1, maxLimit),
			Imports:  e.number("LIMIT_IMPORTS", ratelimit.DefaultLimit, 1, maxLimit),
			Requests: e.number("LIMIT_REQUESTS", ratelimit.DefaultLimit, 1, maxLimit),
		},
		IPv6Prefix:         int(e.number("CLIENT_IPV6_PREFIX", ratelimit.DefaultIPv6Prefix, 1, 128)),
		ClientIPHeader:     getenv("CLIENT_IP_HEADER"),
		OriginSecrets:      e.originSecrets(),
		FailOpen:           e.choice("FAILURE_MODE", "closed", "open") == "open",
		Service:            getenv("SERVICE_NAME"),
		Metrics:            e.choice("METRICS", MetricsService, MetricsAll, MetricsNone),
		AccessOff:          e.choice("AUTH_MODE", "api-key", "none") == "none",
		AdminRoutes:        e.choice("ADMIN_ROUTES", "off", "on") == "on",
		ExportJobs:         e.quota(exportjob.Kind),
		EventRetentionDays: int(e.number("EVENT_RETENTION_DAYS", 0, 0, 36_500)),
		LimitsMaxAge:       e.duration("LIMITS_MAX_AGE", ratelimit.MaxRowAge, time.Second, ratelimit.MaxRowAge),
	}
	if _, err := c.Limits.Check(0); err != nil {
		e.fail("LIMIT_IMPORTS or LIMIT_REQUESTS: %w", err)
	}
	if e.err != nil {
		return Config{}, e.err
	}
	return c, nil
}

// CheckAdmin returns an error if anyone could manage keys and limits, because API keys are off. loopback
// says whether only this machine can reach the service.
func (c Config) CheckAdmin(loopback bool) error {
	if c.AdminRoutes && c.AccessOff && !loopback {
		return errors.New("ADMIN_ROUTES=on needs API keys (AUTH_MODE=api-key), unless only this machine can reach the service")
	}
	return nil
}

// environment reads variables and keeps the first error.
type environment struct {
	getenv func(string) string
	err    error
}

func (e *environment) fail(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf(format, args...)
	}
}

func (e *environment) number(name string, otherwise, least, most int64) int64 {
	text := e.getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		e.fail("%s=%q must be a whole number from %d to %d", name, text, least, most)
	}
	return n
}

func (e *environment) duration(name string, otherwise, least, most time.Duration) time.Duration {
	text := e.getenv(name)
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > most {
		e.fail("%s=%q must be a duration from %v to %v", name, text, least, most)
	}
	return d
}

// quota reads how many unfinished jobs of a kind a workspace may have, from 1 to 100.
func (e *environment) quota(kind job.Kind) int {
	return int(e.number(kind.Variable("PER_WORKSPACE"), int64(kind.Quota), 1, 100))
}

// choice returns the value of a variable, which must be one of values; the first of them if it is empty.
func (e *environment) choice(name string, values ...string) string {
	value := cmp.Or(e.getenv(name), values[0])
	if !slices.Contains(values, value) {
		e.fail("%s=%q must be %s", name, value, strings.Join(values, " or "))
	}
	return value
}

// minOriginSecret is the minimum length of an origin secret, in bytes.
const minOriginSecret = 16

func (e *environment) originSecrets() []string {
	text := e.getenv("ORIGIN_SECRET")
	if text == "" {
		return nil
	}
	if e.getenv("CLIENT_IP_HEADER") == "" {
		e.fail("ORIGIN_SECRET needs CLIENT_IP_HEADER, the header in which the proxy names the client")
	}
	secrets := strings.Split(text, ",")
	for _, secret := range secrets {
		if len(secret) < minOriginSecret {
			e.fail("ORIGIN_SECRET must hold secrets of at least %d characters, separated by commas", minOriginSecret)
		}
	}
	return secrets
}

// Limiter returns a limiter that keeps its counters in store. With FailOpen, it counts in fallback
// while store fails; fallback must keep its counters in memory.
func (c Config) Limiter(store, fallback ratelimit.Store) (*ratelimit.Limiter, error) {
	cfg := ratelimit.Config{Limits: c.Limits}
	if c.FailOpen {
		cfg.Fallback = fallback
	}
	return ratelimit.New(store, cfg)
}
