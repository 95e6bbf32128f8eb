package dynamo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/pkg/audit"
	"sluice/pkg/record"
)

// AuditClient is the part of *dynamodb.Client that Audit uses.
type AuditClient interface {
	putter
	querier
}

// Audit is an audit.Store. It is safe for concurrent use. The attributes of an item are
//
//	workspace   S  partition key; "*service" for a record without a workspace
//	id          S  sort key, also of the index by_time
//	all         S  partition key of the index by_time, always "all"
//	by, of      S  those members of the record, for filters
//	record      S  JSON
//	expires_at  N  Unix time in seconds, for the TTL
type Audit struct {
	client AuditClient
	table  string
}

const serviceChanges = "*service" // no workspace has this name

// NewAudit fails if client is nil or the table name is empty.
func NewAudit(client AuditClient, table string) (*Audit, error) {
	if client == nil || table == "" {
		return nil, errNoTable
	}
	return &Audit{client, table}, nil
}

// Put implements audit.Store with one PutItem.
func (s *Audit) Put(ctx context.Context, r audit.Record) error {
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode audit record: %w", err)
	}
	_, err = s.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.table, Item: attributeValues{
		"workspace": text(cmp.Or(r.Workspace, serviceChanges)), "id": text(r.ID), "all": text("all"),
		"by": text(r.By), "of": text(r.Of), "record": text(string(body)), "expires_at": number(r.At.Time().Add(audit.Keep).Unix()),
	}})
	if err != nil {
		return storeError("put audit record", err)
	}
	return nil
}

// List implements audit.Store with a query of the table or, for all workspaces, of its index. It reads
// records that By and Of do not select, too, up to record.MaxPassedBytes for a page.
func (s *Audit) List(ctx context.Context, q audit.Query) (record.Page[audit.Record], error) {
	workspace := cmp.Or(q.Workspace, serviceChanges)
	in := &dynamodb.QueryInput{
		TableName: &s.table, ScanIndexForward: aws.Bool(false),
		KeyConditionExpression:    aws.String("#partition = :partition"),
		ExpressionAttributeNames:  map[string]string{"#partition": "workspace"},
		ExpressionAttributeValues: attributeValues{":partition": text(workspace)},
	}
	if q.All {
		in.IndexName, in.ExpressionAttributeNames["#partition"] = aws.String("by_time"), "all"
		in.ExpressionAttributeValues[":partition"] = text("all")
	}
	var filters []string
	for name, beginning := range map[string]string{"by": q.By, "of": q.Of} {
		if beginning != "" {
			filters = append(filters, fmt.Sprintf("begins_with(#%s, :%s)", name, name))
			in.ExpressionAttributeNames["#"+name], in.ExpressionAttributeValues[":"+name] = name, text(beginning)
		}
	}
	if len(filters) > 0 {
		in.FilterExpression = aws.String(strings.Join(filters, " AND "))
	}
	if q.Cursor != "" {
		in.KeyConditionExpression = aws.String("#partition = :partition AND id < :before")
		in.ExpressionAttributeValues[":before"] = text(string(q.Cursor))
	}
	return queryPage(ctx, s.client, "id", q.Limit, auditFromItem, in)
}

func auditFromItem(item attributeValues) (r audit.Record, err error) {
	read := readItem(item)
	body := read.text("record")
	if err := read.err(); err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		return r, fmt.Errorf("read audit record: %w", err)
	}
	return r, nil
}
