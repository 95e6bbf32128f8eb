package httpapi

import (
	"context"
	"log/slog"
	"time"

	"sluice/pkg/entity"
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
		if service != "" {
			attrs = append(attrs, slog.String("Service", service), slog.Int("ClockFaults", 1), slog.Attr{Key: "_aws", Value: slog.GroupValue(
				slog.Int64("Timestamp", time.Now().UnixMilli()),
				slog.Any("CloudWatchMetrics", []metricDirective{{
					Namespace: metricsNamespace, Dimensions: [][]string{{"Service"}}, Metrics: []metric{{"ClockFaults", "Count"}},
				}}),
			)})
		}
		logger.LogAttrs(context.WithoutCancel(ctx), slog.LevelWarn, "corrected the stamp of a clock that was wrong", attrs...)
	}
}
