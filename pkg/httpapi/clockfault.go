package httpapi

import (
	"context"
	"log/slog"
	"time"

	"sluice/pkg/entity"
	"sluice/pkg/metric"
	"sluice/pkg/ratelimit"
)

// ClockFaults returns a function that logs clock faults, for the field Fault of an [entity.Clock].
// Unless service is empty, each log line also counts toward the metric ClockFaults
// (docs/operate.md), whose only dimension is Service.
func ClockFaults(logger *slog.Logger, service string) func(context.Context, entity.ClockFault) {
	return func(ctx context.Context, f entity.ClockFault) {
		attrs := []slog.Attr{
			slog.String("workspace", f.Workspace), slog.String("entity", f.ID),
			slog.String("stamp", f.Was.String()), slog.String("corrected", f.Now.String()),
		}
		attrs = append(attrs, metric.Attrs(service, time.Now(), []metric.Metric{metric.Count("ClockFaults")})...)
		logger.LogAttrs(context.WithoutCancel(ctx), slog.LevelWarn, "corrected the stamp of a clock that was wrong", attrs...)
	}
}

// FloorFaults is like ClockFaults, for the floor of a key's ledger; see package dynamo.
func FloorFaults(logger *slog.Logger, service string) func(ctx context.Context, identity string, was, now ratelimit.Window) {
	return func(ctx context.Context, identity string, was, now ratelimit.Window) {
		attrs := []slog.Attr{slog.String("counted", identity), slog.Int64("floor", int64(was)), slog.Int64("corrected", int64(now))}
		attrs = append(attrs, metric.Attrs(service, time.Now(), []metric.Metric{metric.Count("ClockFaults")})...)
		logger.LogAttrs(context.WithoutCancel(ctx), slog.LevelWarn, "corrected the floor of a ledger that a wrong clock has set", attrs...)
	}
}
