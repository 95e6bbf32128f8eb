package httpapi

import (
	"time"

	"sluice/pkg/ratelimit"
)

// Observed describes a request that has been served, for metrics.
type Observed struct {
	Route         string // name of the route
	Class         ratelimit.Class
	Status        int
	Records       int // number of records in the response
	Duration      time.Duration
	Charge        time.Duration // how long the counter store took; 0 if it was not called
	Decision      ratelimit.Decision
	ChargeFailed  bool   // whether the counter store failed
	MissingPlan   bool   // whether the defaults applied to a key because its plan has no row
	AccessRefused string // why the caller was rejected, such as "missing_scope"; "" if it was not
}

func (r *request) observed() Observed {
	o := Observed{
		Route: r.route.Name, Class: r.route.Class, Status: r.log.status, Records: r.log.records, Duration: time.Since(r.log.begun),
		Decision: r.decision, ChargeFailed: r.log.chargeErr != nil || r.decision.Degraded != nil, AccessRefused: r.log.refused,
		MissingPlan: r.subject.MissingPlan != "",
	}
	if r.log.charged {
		o.Charge = r.log.latency
	}
	return o
}
