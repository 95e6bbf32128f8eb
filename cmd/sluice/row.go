package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/pkg/ratelimit"
)

func describeRow(r ratelimit.Row) string {
	if r.Action == ratelimit.ActionBlock {
		return fmt.Sprintf("%s: block", r.Name())
	}
	text := fmt.Sprintf("%s: %s, records %s, imports %s, requests %s", r.Name(), r.Action, orDefault(r.Records), orDefault(r.Imports), orDefault(r.Requests))
	if quotas := quotasOf(r); quotas != "" {
		text += ", quotas: " + quotas
	}
	return text
}

// quotasOf returns the quotas of a row, such as "5000000 records/month, export jobs"; "" if it has none.
func quotasOf(r ratelimit.Row) string {
	var all []string
	for _, q := range r.AllQuotas() {
		if q.Limit > 0 {
			all = append(all, fmt.Sprintf("%d %s/%v", q.Limit, q.Counter, q.Period))
		}
	}
	if r.ExportJobs {
		all = append(all, "export jobs")
	}
	return strings.Join(all, ", ")
}

func rowExpires(r ratelimit.Row) string {
	if r.ExpiresAt.IsZero() {
		return "never"
	}
	return r.ExpiresAt.Format(time.RFC3339)
}

func orDefault(limit int64) string {
	if limit == 0 {
		return "default"
	}
	return strconv.FormatInt(limit, 10)
}
