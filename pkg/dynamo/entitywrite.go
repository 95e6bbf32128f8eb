package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/entity"
	"sluice/pkg/index"
	"sluice/pkg/record"
)

// condition says when Write's UpdateItem applies. An item with expires_at is a tombstone.
// #change < :change compares stamps, because both positions have the item's id.
type condition struct {
	expression string
	replaces   bool // whether the expression has :was, the position of the change to be replaced
}

// unseen holds the condition of Write's first UpdateItem, which is sent before the item has been
// read. Later UpdateItems have the condition in seen instead.
var unseen = map[entity.Op]condition{
	entity.CreateWrite:  {expression: "attribute_not_exists(id) OR attribute_exists(expires_at) AND #change < :change"},
	entity.ReplaceWrite: {expression: "attribute_not_exists(expires_at) AND " + seen, replaces: true},
	entity.DeleteWrite:  {expression: "attribute_not_exists(expires_at) AND #change < :change"},
	entity.EraseWrite:   {expression: "attribute_not_exists(id) OR #change < :change"},
}

const seen = "#change = :was"

// Write implements entity.Store with a conditional UpdateItem. If the condition is false, the
// response contains the item. If that item still needs to change, Write sends the update again
// with a later stamp, on the condition that the item's stamp has not changed since.
//
// The SDK retries an UpdateItem whose response was lost. If the retry finds what the first
// attempt meant to store, the write has succeeded. If it finds anything else, the outcome is
// unknown: another client may have changed the item after the first attempt was applied, and a
// further attempt could undo that change.
func (s *Entities) Write(ctx context.Context, workspace string, w entity.Write) (latest entity.Change, written bool, err error) {
	op := string(w.Op) + " entity"
	latest, when := presumed(w), unseen[w.Op]
	refreshErr := s.indexes.Refresh(ctx)
	for {
		now := s.clock.Time()
		next, ok := w.Next(latest, now)
		if !ok {
			return latest, false, nil
		}
		indexed, err := s.indexes.At(now)
		if err != nil && !next.Deleted { // a tombstone has no index keys
			return entity.Change{}, false, cmp.Or(refreshErr, err)
		}
		sent := newAttempts(s.clock.Time, now)
		out, err := s.client.UpdateItem(ctx, s.update(workspace, latest, next, when, indexed), sent.watch)
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
		if sent.lost {
			if w.Stored(next, latest) {
				return latest, true, nil
			}
			return entity.Change{}, false, record.UnavailableError(op, errors.New("a response was lost, and the entity has changed since"))
		}
		when = condition{expression: seen, replaces: true}
	}
}

// presumed returns the change that w expects to replace.
func presumed(w entity.Write) entity.Change {
	switch w.Op {
	case entity.ReplaceWrite:
		return entity.Change{Entity: w.Old}
	case entity.DeleteWrite:
		return entity.Change{Entity: entity.Entity{ID: w.Entity.ID}}
	}
	return entity.Change{}
}

// update returns the UpdateItem that replaces latest with next. It leaves out the attributes
// that such a change keeps, because latest may come from presumed and not from the table.
func (s *Entities) update(workspace string, latest, next entity.Change, when condition, indexed index.Set) *dynamodb.UpdateItemInput {
	u := newUpdateExpression()
	u.set("shard", text(s.shards.key(workspace, next.ID)))
	u.set("change", text(next.SyncPosition().String()))
	if next.Deleted {
		u.set("expires_at", number(next.ExpiresAt().Unix()))
		u.remove("type_key")
	} else {
		u.set("type_key", text(typeKey(workspace, next.Type)))
		u.remove("expires_at")
	}
	u.setKeys(keysOf(workspace, next, indexed))
	erasure := next.Deleted && next.ErasedAt == next.DeletedAt
	if erasure {
		u.set("erased_at", text(next.ErasedAt.String()))
	}
	inNext := record.Names(next.Members(nil))
	for _, m := range next.Entity.Members(nil) {
		switch value := memberValue(m); {
		case m.Name == "id" || slices.Contains(inChange, m.Name): // set above, or part of the key
		case !slices.Contains(inNext, m.Name):
			u.remove(m.Name)
		case erasure: // the entity may never have existed
			u.setIfAbsent(m.Name, value)
		case next.Deleted: // the tombstone keeps it
		case value == nil:
			u.remove(m.Name)
		default:
			u.set(m.Name, value)
		}
	}
	if when.replaces {
		u.values[":was"] = text(latest.SyncPosition().String())
	}
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
	sets, removes []string
	names         map[string]string
	values        attributeValues
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
