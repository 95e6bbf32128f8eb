package dynamo

import (
	"context"
	"sync"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/pkg/record"
)

// queryChanges is like queryPage, for a list of changes. now is the clock as read before the call.
// Whichever is earlier, now or the Date of the first response, decides what is settled: that query
// read everything stamped record.SyncLag earlier, whereas later queries of a slow page say nothing
// about what the first one could not see yet.
func queryChanges[R any](ctx context.Context, client querier, now time.Time, limit int, decode func(attributeValues) (R, error), ins ...*dynamodb.QueryInput) (record.Page[R], error) {
	d := &dated{querier: client}
	page, err := queryPage(ctx, d, "change", limit, decode, ins...)
	if !d.date.IsZero() && d.date.Before(now) {
		now = d.date
	}
	page.Settled = record.TimeOf(now.Add(-record.SyncLag))
	return page, err
}

// dated keeps the Date of the first response, in whole seconds.
type dated struct {
	querier
	once sync.Once
	date time.Time // zero if the response had none
}

func (d *dated) Query(ctx context.Context, in *dynamodb.QueryInput, opts ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	out, err := d.querier.Query(ctx, in, opts...)
	if err == nil {
		d.once.Do(func() { d.date, _ = awsmiddleware.GetServerTime(out.ResultMetadata) })
	}
	return out, err
}
