package dynamo

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/pkg/exportjob"
	"sluice/pkg/record"
)

// OldestQueued returns the creation time of the oldest queued job in all workspaces.
// ok is false if no job is queued. OldestQueued reads one item of the index
// by_status, which is eventually consistent.
func (s *ExportJobs) OldestQueued(ctx context.Context) (created record.Time, ok bool, err error) {
	const op = "find the oldest queued export job"
	out, err := s.client.Query(ctx, &dynamodb.QueryInput{
		TableName:                 &s.table,
		IndexName:                 aws.String("by_status"),
		Limit:                     aws.Int32(1),
		KeyConditionExpression:    aws.String("#status = :queued"),
		ExpressionAttributeNames:  map[string]string{"#status": "status"},
		ExpressionAttributeValues: attributeValues{":queued": text(string(exportjob.Queued))},
	})
	if err != nil {
		return record.Time{}, false, storeError(op, err)
	}
	if len(out.Items) == 0 {
		return record.Time{}, false, nil
	}
	position, err := record.ParsePosition(readItem(out.Items[0]).text("position"))
	if err != nil {
		return record.Time{}, false, fmt.Errorf("%s: %w", op, err)
	}
	return position.At, true, nil
}
