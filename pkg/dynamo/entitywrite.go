package dynamo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/entity"
	"sluice/pkg/index"
	"sluice/pkg/record"
)

// condition says when an UpdateItem applies. An item with expires_at is a tombstone. #change < :change
// compares stamps, because both positions have the item's id.
type condition struct {
	expression string
	revision   int64 // :was, if the expression has it
}

// name adds the names and values that c needs to those of u.
func (c condition) name(u updateExpression) {
	u.names["#revision"] = "revision"
	if c.revision > 0 {
		u.values[":was"] = number(c.revision)
	}
}

const (
	isLive    = "attribute_not_exists(expires_at)"
	isEarlier = "#change < :change"
	isWas     = "#revision = :was"

	isFirstErasure = "attribute_not_exists(#erased_at)"
	isLaterErasure = "#erased_at < :erased_at"
)

// seen returns the condition of an UpdateItem that replaces a change which has been read: the
// revision is still the same. A new entity and an item of a version without revisions have none.
func seen(c entity.Change) condition {
	if c.Revision == 0 {
		return condition{expression: "attribute_not_exists(#revision)"}
	}
	return condition{isWas, c.Revision}
}

// unseen returns the condition of an UpdateItem for an item that has not been read, and what w
// presumes of that item. The stored stamp must be earlier than that of the change. So stamps do not
// decrease, and an attempt that arrives late does not undo what has been stored after another
// attempt of the same call. ok is false if the item must be read first.
func unseen(w entity.Write) (when condition, presumed entity.Change, ok bool) {
	switch {
	case w.Op == entity.CreateWrite && w.If == nil:
		return condition{expression: "attribute_not_exists(id) OR attribute_exists(expires_at) AND " + isEarlier}, entity.Change{}, true
	case w.Op == entity.EraseWrite && w.If == nil:
		return condition{expression: "attribute_not_exists(id) OR " + isEarlier + " AND " + isFirstErasure + " OR " + isEarlier + " AND " + isLaterErasure}, entity.Change{}, true
	case w.Op != entity.DeleteWrite || w.If != nil && !w.If.Any && w.If.Revision == 0:
		return condition{}, entity.Change{}, false
	}
	presumed.ID = w.ID
	when = condition{expression: isLive + " AND " + isEarlier}
	if w.If != nil && !w.If.Any {
		presumed.Revision = w.If.Revision
		when = condition{when.expression + " AND " + isWas, presumed.Revision}
	}
	return when, presumed, true
}

// After every second refusal, a write pauses for a random time of up to pauseFactor times as long as
// the call took, and at most maxPause. A refusal shows the item as it is, so the attempt that follows
// at once has the best chance. If it is refused too, others are at the item, and only some of them
// should come back soon: the fewer, the slower DynamoDB is. With 5 ms for a call, 150 updates of one
// item at once make 8 attempts each, and 99 of 100 succeed within 1.3 s. Pauses that do not depend
// on the call keep a slow DynamoDB busy with refusals.
const (
	pauseFactor = 64
	maxPause    = 2500 * time.Millisecond
)

// Write implements entity.Store with a conditional UpdateItem. If the condition is false, the
// response contains the item. If that item still needs to change, Write sends another update, on
// the condition that the item still has its revision.
//
// The SDK retries an UpdateItem whose response was lost. If the retry finds the token of the
// first attempt, the write has succeeded. If it finds anything else, the outcome is unknown:
// another client may have changed the item after the first attempt was applied, and a further
// attempt could undo that change.
func (s *Entities) Write(ctx context.Context, workspace string, w entity.Write) (latest entity.Change, written bool, err error) {
	op := string(w.Op) + " entity"
	refreshErr := s.indexes.Refresh(ctx)
	latest, when, err := s.before(ctx, workspace, w)
	if err != nil {
		return entity.Change{}, false, err
	}
	for refusals := 1; ; refusals++ {
		now := s.clock.Time()
		next, ok, err := w.Next(latest, latest.SyncPosition().At.Next(now))
		if err != nil || !ok {
			return latest, false, err
		}
		indexed, err := s.indexes.At(now)
		if err != nil && !next.Deleted { // a tombstone has no index keys
			return entity.Change{}, false, cmp.Or(refreshErr, err)
		}
		token := rand.Uint64()
		asked := cmp.Or(w.Asked, now)
		sent, began := newAttempts(s.clock.Time, asked), time.Now()
		out, err := s.client.UpdateItem(ctx, s.update(workspace, latest, next, when, token, indexed), sent.watch)
		refused, isRefused := errors.AsType[*types.ConditionalCheckFailedException](err)
		switch {
		case err == nil:
			s.clock.Check(ctx, workspace, latest, next)
			latest, err = changeFromItem(out.Attributes)
			return latest, true, err
		case !isRefused:
			return entity.Change{}, false, storeError(op, err)
		}
		if latest = (entity.Change{}); refused.Item != nil {
			if latest, err = changeFromItem(refused.Item); err != nil {
				return entity.Change{}, false, err
			}
		}
		switch {
		case hasToken(refused.Item, token):
			return latest, true, nil
		case sent.lost:
			return entity.Change{}, false, record.UnavailableError(op, errors.New("a response was lost, and the entity has changed since"))
		}
		when = seen(latest)
		if refusals%2 == 0 {
			if err := pause(ctx, time.Since(began)); err != nil {
				detail := fmt.Sprintf("other requests keep changing the entity %q, so nothing was stored; try again", w.ID)
				return entity.Change{}, false, &record.Error{Code: record.Unavailable, Detail: detail, Err: err}
			}
		}
	}
}

// pause fails once ctx is done. took is how long the last call took.
func pause(ctx context.Context, took time.Duration) error {
	select {
	case <-time.After(rand.N(min(pauseFactor*took, maxPause) + 1)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// before returns the change that the first UpdateItem for w replaces, and its condition. It reads
// the item if w depends on what is stored, and has not been read.
func (s *Entities) before(ctx context.Context, workspace string, w entity.Write) (latest entity.Change, when condition, err error) {
	if w.Read != nil {
		return *w.Read, seen(*w.Read), nil
	}
	if when, presumed, ok := unseen(w); ok {
		return presumed, when, nil
	}
	latest, _, err = getItem(ctx, s.client, s.table, entityKey(workspace, w.ID), changeFromItem)
	return latest, seen(latest), err
}

func tokenValue(token uint64) types.AttributeValue {
	return &types.AttributeValueMemberB{Value: binary.BigEndian.AppendUint64(nil, token)}
}

func hasToken(item attributeValues, token uint64) bool {
	return item["token"] != nil && readItem(item).binary("token") == string(binary.BigEndian.AppendUint64(nil, token))
}

// update returns the UpdateItem that replaces latest with next. It leaves out what such a change
// keeps, because latest may be presumed and not from the table.
func (s *Entities) update(workspace string, latest, next entity.Change, when condition, token uint64, indexed index.Set) *dynamodb.UpdateItemInput {
	u := newUpdateExpression()
	u.set("shard", text(s.shards.key(workspace, next.ID)))
	u.set("change", text(next.SyncPosition().String()))
	u.set("token", tokenValue(token))
	u.increment("revision")
	if next.Deleted {
		u.set("expires_at", number(next.ExpiresAt().Unix()))
		u.remove("type_key")
	} else {
		u.set("type_key", text(typeKey(workspace, next.Type)))
		u.remove("expires_at")
	}
	if next.Deleted || !latest.Live() || next.Type != latest.Type || !bytes.Equal(next.Attributes, latest.Attributes) {
		u.setKeys(keysOf(workspace, next, indexed))
	}
	if next.ErasedAt != latest.ErasedAt {
		u.set("erased_at", text(next.ErasedAt.String()))
	}
	inNext := record.Names(next.Members(nil))
	for _, m := range next.Entity.Members(nil) {
		switch value := memberValue(m); {
		case m.Name == "id" || m.Name == "revision" || slices.Contains(inChange, m.Name): // set above, or part of the key
		case !slices.Contains(inNext, m.Name) || value == nil && !next.Deleted:
			u.remove(m.Name)
		case next.Deleted: // a tombstone keeps it, unless the entity never existed
			u.setIfAbsent(m.Name, value)
		default:
			u.set(m.Name, value)
		}
	}
	when.name(u)
	in := s.conditional(workspace, next.ID, when.expression, u)
	in.ReturnValues = types.ReturnValueAllNew
	return in
}

// conditional returns an UpdateItem. If its condition is false, the error contains the item.
func (s *Entities) conditional(workspace, id, condition string, u updateExpression) *dynamodb.UpdateItemInput {
	return &dynamodb.UpdateItemInput{
		TableName:                           &s.table,
		Key:                                 entityKey(workspace, id),
		UpdateExpression:                    aws.String(u.String()),
		ConditionExpression:                 &condition,
		ExpressionAttributeNames:            u.names,
		ExpressionAttributeValues:           u.values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

type updateExpression struct {
	sets, removes, adds []string
	names               map[string]string
	values              attributeValues
}

func newUpdateExpression() updateExpression {
	return updateExpression{names: make(map[string]string), values: make(attributeValues)}
}

func (u *updateExpression) String() string {
	var clauses []string
	if len(u.sets) > 0 {
		clauses = append(clauses, "SET "+strings.Join(u.sets, ", "))
	}
	if len(u.removes) > 0 {
		clauses = append(clauses, "REMOVE "+strings.Join(u.removes, ", "))
	}
	if len(u.adds) > 0 {
		clauses = append(clauses, "ADD "+strings.Join(u.adds, ", "))
	}
	return strings.Join(clauses, " ")
}

func (u *updateExpression) set(name string, value types.AttributeValue) {
	u.names["#"+name], u.values[":"+name] = name, value
	u.sets = append(u.sets, fmt.Sprintf("#%s = :%[1]s", name))
}

func (u *updateExpression) setIfAbsent(name string, value types.AttributeValue) {
	u.names["#"+name], u.values[":"+name] = name, value
	u.sets = append(u.sets, fmt.Sprintf("#%s = if_not_exists(#%[1]s, :%[1]s)", name))
}

func (u *updateExpression) remove(name string) {
	u.names["#"+name] = name
	u.removes = append(u.removes, "#"+name)
}

// increment adds 1 to a number, or sets it to 1 if it is absent.
func (u *updateExpression) increment(name string) {
	u.names["#"+name], u.values[":one"] = name, number(1)
	u.adds = append(u.adds, "#"+name+" :one")
}
