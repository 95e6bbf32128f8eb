package dynamo

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/pkg/event"
	"sluice/pkg/index"
	"sluice/pkg/record"
)

// EventsClient is the part of *dynamodb.Client that Events uses.
type EventsClient interface {
	putter
	getter
	querier
	deleter
}

// EventsConfig tunes Events. Its zero value is ready to use.
type EventsConfig struct {
	Shards  Shards             // for by_position, by_created_at and by_name
	Now     func() time.Time   // time.Now by default
	Indexes index.Declarations // nil for none
}

// Events is an event.Store. It is safe for concurrent use.
//
// The partition key is pk (S): the workspace, '#' and the id. It makes ids unique in a
// workspace and spreads writes over all partitions. The other attributes are the members of
// Event.Members, expires_at (N, the TTL attribute, in Unix seconds; absent from events that do
// not expire) and the keys of four global secondary indexes. All but expires_at are strings.
//
//   - by_position has the keys shard and position, and lists the events of a workspace.
//     shard is the workspace, '#' and a shard number, counted from 0 (see Shards). position
//     is the text of Event.Position.
//   - by_entity has the keys entity_key and position, and lists the events of an entity.
//     entity_key is the workspace, '#' and entity_id.
//   - by_name has the keys name_key and position, and lists the events with a name. name_key is
//     the shard, '#' and the name; absent unless the workspace indexes its events by name.
//   - by_created_at has the keys shard and change, and lists the events of a workspace in
//     order of creation. change is the text of Event.SyncPosition. The index projects expires_at
//     and all members but id and created_at, which change contains.
type Events struct {
	client EventsClient
	table  string
	shards Shards
	now    func() time.Time

	indexes index.Declarations
}

// NewEvents fails if client is nil, the table name is empty or a shard count is invalid.
func NewEvents(client EventsClient, table string, cfg EventsConfig) (*Events, error) {
	if client == nil || table == "" {
		return nil, errNoTable
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	shards, err := cfg.Shards.checked()
	if err != nil {
		return nil, err
	}
	if cfg.Indexes == nil {
		cfg.Indexes = new(index.Current)
	}
	return &Events{client: client, table: table, shards: shards, now: cfg.Now, indexes: cfg.Indexes}, nil
}

// Create implements event.Store with one conditional PutItem. It overwrites an expired item,
// which DynamoDB may take days to remove.
func (s *Events) Create(ctx context.Context, workspace string, d event.Draft) (stored event.Event, created bool, err error) {
	refreshErr := s.indexes.Refresh(ctx)
	now := s.now()
	indexed, err := s.indexes.At(now)
	if err != nil {
		return event.Event{}, false, cmp.Or(refreshErr, err)
	}
	e := d.At(now)
	item := s.toItem(workspace, e)
	if names, ok := indexed.EventNames(workspace); ok && names.Written() {
		item["name_key"] = text(nameKey(s.shards.key(workspace, e.ID), e.Name))
	}
	return createItem(ctx, s.client, s.table, "pk", e, item, eventFromItem, func(in *dynamodb.PutItemInput) {
		*in.ConditionExpression += " OR #expires_at <= :now"
		in.ExpressionAttributeNames["#expires_at"] = "expires_at"
		in.ExpressionAttributeValues = attributeValues{":now": number(now.Unix())}
	}, newAttempts(s.now, now).watch)
}

// Get implements event.Store with a strongly consistent read.
func (s *Events) Get(ctx context.Context, workspace, id string) (event.Event, error) {
	item := attributeValues{"pk": text(eventKey(workspace, id))}
	e, found, err := getItem(ctx, s.client, s.table, item, eventFromItem)
	if err == nil && (!found || e.Expired(record.TimeOf(s.now()))) {
		return event.Event{}, record.NotFoundError("event", id)
	}
	return e, err
}

// List implements event.Store with eventually consistent reads of an index: a new event may be
// missing for a moment.
func (s *Events) List(ctx context.Context, workspace string, q event.Query) (record.Page[event.Event], error) {
	ins, err := s.queries(workspace, q)
	if err != nil {
		return record.Page[event.Event]{}, err
	}
	return queryPage(ctx, s.client, "position", q.Limit, eventFromItem, s.unexpired(ins)...)
}

// unexpired adds a filter to queries that drops expired events.
func (s *Events) unexpired(ins []*dynamodb.QueryInput) []*dynamodb.QueryInput {
	now := number(s.now().Unix())
	for _, in := range ins {
		in.FilterExpression = aws.String("attribute_not_exists(#expires_at) OR #expires_at > :now")
		in.ExpressionAttributeNames["#expires_at"], in.ExpressionAttributeValues[":now"] = "expires_at", now
	}
	return ins
}

// Changes implements event.Store. Like List, it is eventually consistent.
func (s *Events) Changes(ctx context.Context, workspace string, q record.SyncQuery) (record.Page[event.Event], error) {
	ins, err := s.shards.syncQueries(s.table, "by_created_at", workspace, q)
	if err != nil {
		return record.Page[event.Event]{}, err
	}
	return queryChanges(ctx, s.client, s.now(), q.Limit, eventFromItem, s.unexpired(ins)...)
}

// Count implements event.Store. Like List, it is eventually consistent.
func (s *Events) Count(ctx context.Context, workspace string, q event.Query, until record.Time) (int64, error) {
	q.Cursor = ""
	ins, err := s.queries(workspace, q)
	if err != nil {
		return 0, err
	}
	return countItems(ctx, s.client, until, ins...)
}

// queries returns nil if q cannot select any event.
func (s *Events) queries(workspace string, q event.Query) ([]*dynamodb.QueryInput, error) {
	low, high, err := q.Bounds()
	if err != nil {
		return nil, err
	}
	switch {
	case q.Name != "":
		return s.shards.each(workspace, func(shard string) *dynamodb.QueryInput {
			return between(s.table, "by_name", "name_key", nameKey(shard, q.Name), "position", low, high, q.Ascending)
		}), nil
	case q.EntityID == "":
		return s.shards.queries(s.table, "by_position", "position", workspace, low, high, q.Ascending), nil
	}
	in := between(s.table, "by_entity", "entity_key", eventKey(workspace, q.EntityID), "position", low, high, q.Ascending)
	if in == nil {
		return nil, nil
	}
	return []*dynamodb.QueryInput{in}, nil
}

// eventKey returns an event's partition key if name is the event's id. If name is an entity's
// id, it returns the partition key of that entity's events in by_entity.
func eventKey(workspace, name string) string { return workspace + "#" + name }

// nameKey is unambiguous, because a shard's key contains one '#'.
func nameKey(shard, name string) string { return shard + "#" + name }

func (s *Events) toItem(workspace string, e event.Event) attributeValues {
	item := attributeValues{
		"pk":       text(eventKey(workspace, e.ID)),
		"shard":    text(s.shards.key(workspace, e.ID)),
		"position": text(e.Position().String()),
		"change":   text(e.SyncPosition().String()),
	}
	for _, m := range e.Members(nil) {
		if value := memberValue(m); value != nil {
			item[m.Name] = value
		}
	}
	if (e.ExpiresAt != record.Time{}) {
		item["expires_at"] = number(e.ExpiresAt.Time().Unix())
	}
	if e.EntityID != "" {
		item["entity_key"] = text(eventKey(workspace, e.EntityID))
	}
	return item
}

func eventFromItem(item attributeValues) (e event.Event, err error) {
	r := readItem(item)
	created := r.position("change")
	e.ID, e.CreatedAt = created.ID, created.At
	r.members(e.Members(nil), "id", "created_at") // by_created_at does not project these
	if seconds := r.optionalNumber("expires_at"); seconds != 0 {
		e.ExpiresAt = record.TimeOf(time.Unix(seconds, 0))
	}
	if err := r.err(); err != nil {
		return event.Event{}, fmt.Errorf("read event: %w", err)
	}
	return e, nil
}
