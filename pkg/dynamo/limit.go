package dynamo

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"sluice/pkg/ratelimit"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// LimitsClient is the part of *dynamodb.Client that Limits uses. The Lambda functions call
// only Scan.
type LimitsClient interface {
	putter
	deleter
	dynamodb.ScanAPIClient
}

// Limits is a ratelimit.RowManager. It is safe for concurrent use. The attributes of an item
// are
//
//	cidr        S  partition key: the row's name, 192.0.2.0/24, key:7m3kq2xw9abc or plan:pro
//	action      S
//	updated_at  N  Unix time in seconds
//	records     N  absent means the default
//	imports     N  absent means the default
//	requests    N  absent means the default
//	records_per_day, records_per_month, imports_per_day, imports_per_month
//	            N  absent means none
//	export_jobs N  1 if set
//	note        S  absent if empty
//	expires_at  N  Unix time in seconds, for the TTL; absent if the row does not expire
type Limits struct {
	// Eventual makes List take half the units. It may then miss what was written a moment ago.
	Eventual bool

	client LimitsClient
	table  string
}

// NewLimits fails if client is nil or the table name is empty.
func NewLimits(client LimitsClient, table string) (*Limits, error) {
	if client == nil || table == "" {
		return nil, errNoTable
	}
	return &Limits{client: client, table: table}, nil
}

// List implements ratelimit.RowStore with a Scan. It takes one read unit per 4 KB, at least one.
func (s *Limits) List(ctx context.Context) ([]ratelimit.Row, error) {
	var rows []ratelimit.Row
	var invalid ratelimit.InvalidRows
	_, err := scanItems(ctx, s.client, &dynamodb.ScanInput{TableName: &s.table, ConsistentRead: aws.Bool(!s.Eventual)}, func(item attributeValues) (struct{}, error) {
		if r, err := rowFromItem(item); err != nil {
			invalid = append(invalid, err)
		} else {
			rows = append(rows, r)
		}
		return struct{}{}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("list limits: %w", err)
	}
	slices.SortFunc(rows, ratelimit.Row.Compare)
	if len(invalid) > 0 {
		return rows, invalid
	}
	return rows, nil
}

// Put implements ratelimit.RowManager with a Scan and a PutItem.
func (s *Limits) Put(ctx context.Context, r ratelimit.Row) error {
	others, err := s.countOthers(ctx, r)
	if err != nil {
		return fmt.Errorf("count limits: %w", err)
	}
	if err := r.CheckRoom(others); err != nil {
		return err
	}
	if _, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.table, Item: rowToItem(r)}); err != nil {
		return fmt.Errorf("put limits: %w", err)
	}
	return nil
}

// countOthers counts the rows with other names that block if r does, without those that had expired
// at r.UpdatedAt.
func (s *Limits) countOthers(ctx context.Context, r ratelimit.Row) (n int, err error) {
	kind := "<>"
	if r.Blocks() {
		kind = "="
	}
	pages := dynamodb.NewScanPaginator(s.client, &dynamodb.ScanInput{
		TableName:                &s.table,
		ConsistentRead:           aws.Bool(true),
		Select:                   types.SelectCount,
		FilterExpression:         aws.String("cidr <> :cidr AND #action " + kind + " :block AND (attribute_not_exists(expires_at) OR expires_at > :now)"),
		ExpressionAttributeNames: map[string]string{"#action": "action"},
		ExpressionAttributeValues: attributeValues{
			":cidr": text(r.Name()), ":block": text(string(ratelimit.ActionBlock)), ":now": number(r.UpdatedAt.Unix()),
		},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return 0, err
		}
		n += int(page.Count)
	}
	return n, nil
}

// Remove implements ratelimit.RowManager with one DeleteItem. If the response is lost, the
// SDK's retry finds no row, so Remove returns ErrNoRow.
func (s *Limits) Remove(ctx context.Context, name string) error {
	out, err := s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: &s.table, Key: attributeValues{"cidr": text(name)}, ReturnValues: types.ReturnValueAllOld,
	})
	switch {
	case err != nil:
		return fmt.Errorf("remove limits: %w", err)
	case len(out.Attributes) == 0:
		return ratelimit.ErrNoRow
	}
	return nil
}

func rowToItem(r ratelimit.Row) attributeValues {
	item := attributeValues{
		"cidr":       text(r.Name()),
		"action":     text(string(r.Action)),
		"updated_at": number(r.UpdatedAt.Unix()),
	}
	for name, limit := range limitsOf(&r) {
		if *limit != 0 {
			item[name] = number(*limit)
		}
	}
	if r.ExportJobs {
		item["export_jobs"] = number(1)
	}
	if r.Note != "" {
		item["note"] = text(r.Note)
	}
	if !r.ExpiresAt.IsZero() {
		item["expires_at"] = number(r.ExpiresAt.Unix())
	}
	return item
}

// limitsOf returns where r has the number of each attribute.
func limitsOf(r *ratelimit.Row) map[string]*int64 {
	return map[string]*int64{
		"records": &r.Records, "imports": &r.Imports, "requests": &r.Requests,
		"records_per_day": &r.RecordsPerDay, "records_per_month": &r.RecordsPerMonth,
		"imports_per_day": &r.ImportsPerDay, "imports_per_month": &r.ImportsPerMonth,
	}
}

func rowFromItem(item attributeValues) (r ratelimit.Row, err error) {
	read := readItem(item)
	name := read.text("cidr")
	const anyIPv6 = 128 // CLIENT_IPV6_PREFIX may have been different when the row was put
	if r, err = ratelimit.ParseRowName(name, anyIPv6); err == nil && r.Name() != name {
		err = fmt.Errorf("the name is not in the form %s", r.Name())
	}
	r.Action, r.Note = ratelimit.Action(read.text("action")), read.optionalText("note")
	r.UpdatedAt, r.ExpiresAt = unixTime(read.optionalNumber("updated_at")), unixTime(read.optionalNumber("expires_at"))
	for name, limit := range limitsOf(&r) {
		*limit = read.optionalNumber(name)
	}
	r.ExportJobs = read.optionalNumber("export_jobs") != 0
	if err = cmp.Or(read.err(), err); err == nil {
		err = r.Validate()
	}
	if err != nil {
		return ratelimit.Row{}, fmt.Errorf("row %q: %w", name, err)
	}
	return r, nil
}

// unixTime returns the zero Time for 0.
func unixTime(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}
