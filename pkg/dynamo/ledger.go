package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/ratelimit"
)

// The ledger of a key is one item for each group of counters, for all time. A counter's attribute is
// named after the counter and its period, so no counter is ever reset:
//
//	pk          S  partition key: identity#group
//	second      N  sort key: 0
//	a1trmqo0    N  a counter of a second: its code, then the Unix time in base 36
//	a1dg2p      N  a counter of a day: d, then the number of days since 1970
//	a1mirn      N  a counter of a month: m, then the number of months since year 0
//	floor       N  no charge may count in a second before this one, so counters of earlier seconds and
//	               days can be removed
//	expires_at  N  14 months after the last charge; the table's TTL attribute
//
// A charge also removes the counters that its instance has seen and that are closed: of seconds before
// floor, of days that ended before it, and of months but the last 13. If it raises the floor for that,
// it does so to closedAfter before the Date of the response in which it saw them, on the condition that
// the floor is not higher. So the floor follows DynamoDB's clock, whatever the clocks of instances show.
const (
	closedAfter = 5  // seconds
	maxClosed   = 20 // closed counters that a response may show before a call of its own removes them

	ledgerRetention = 14 * 31 * 24 * time.Hour
	ledgerTries     = 4
)

// A floor can be faultyFloor ahead of DynamoDB's time only if DynamoDB's clock was wrong, as that of a
// laptop with DynamoDB Local may be. It is then set to restart ahead of that time, where no charge has
// counted yet, because the counters of the current seconds may have been removed.
const (
	faultyFloor = 8
	restart     = 6
)

// counterCode returns two characters for the name of a counter. Those of a group must differ.
func counterCode(counter string) string {
	h := fnv.New32a()
	h.Write([]byte(counter))
	code := strconv.FormatUint(uint64(h.Sum32()%(36*36)), 36)
	return strings.Repeat("0", 2-len(code)) + code
}

const codeLength = 2

// ledgerName returns the attribute of a counter in the period that contains w.
func ledgerName(counter string, p ratelimit.Period, w ratelimit.Window) string {
	t := time.Unix(int64(w), 0).UTC()
	code := counterCode(counter)
	switch p {
	case ratelimit.Day:
		return code + "d" + strconv.FormatInt(int64(p.Start(w))/int64(24*time.Hour/time.Second), 36)
	case ratelimit.Month:
		return code + "m" + strconv.FormatInt(int64(t.Year())*12+int64(t.Month())-1, 36)
	default:
		return code + strconv.FormatInt(int64(w), 36)
	}
}

// parseLedgerName returns the first window of the period; ok is false if name is no counter's.
func parseLedgerName(name string) (code string, p ratelimit.Period, start ratelimit.Window, ok bool) {
	const shortest = 6 // characters of a second since 1972; days and months are shorter
	if len(name) <= codeLength || strings.Contains(name, "_") || name == "floor" || name == "second" {
		return "", 0, 0, false
	}
	code, rest := name[:codeLength], name[codeLength:]
	if len(rest) < shortest {
		switch rest[0] {
		case 'd':
			p, rest = ratelimit.Day, rest[1:]
		case 'm':
			p, rest = ratelimit.Month, rest[1:]
		default:
			return "", 0, 0, false
		}
	}
	n, err := strconv.ParseInt(rest, 36, 64)
	switch p {
	case ratelimit.Day:
		n *= int64(24 * time.Hour / time.Second)
	case ratelimit.Month:
		n = time.Date(int(n/12), time.Month(n%12+1), 1, 0, 0, 0, 0, time.UTC).Unix()
	}
	return code, p, ratelimit.Window(n), err == nil
}

// removable reports whether a counter is not needed if floor is the floor.
func removable(name string, floor ratelimit.Window) bool {
	_, p, start, ok := parseLedgerName(name)
	if ok && p == ratelimit.Month {
		oldest := time.Unix(int64(ratelimit.Month.Start(floor)), 0).UTC().AddDate(0, 1-ratelimit.KeptMonths, 0)
		return start < ratelimit.WindowAt(oldest)
	}
	return ok && p.End(start) <= floor
}

// Place implements ratelimit.Placer.
func (s *Counters) Place(key ratelimit.Key) ratelimit.Window {
	if _, ok := ratelimit.KeyID(key.Identity); !ok {
		return key.Window
	}
	return s.place(key, s.ledgers.get(ledgerID{key.Identity, key.Group}))
}

func (s *Counters) place(key ratelimit.Key, seen seenLedger) ratelimit.Window {
	return max(key.Window+s.clock.correction(), seen.floor)
}

// chargeKey is Charge for an identity that is a key. It is one UpdateItem unless another instance has
// raised the floor in the meantime.
func (s *Counters) chargeKey(ctx context.Context, key ratelimit.Key, costs []ratelimit.Cost) (ratelimit.Result, error) {
	id := ledgerID{key.Identity, key.Group}
	for range ledgerTries {
		seen := s.ledgers.get(id)
		u := ledgerUpdate{table: s.table, id: id, costs: costs, window: s.place(key, seen)}
		u.clean(seen)
		item, date, err := s.sendUpdate(ctx, u.input())
		var refused *types.ConditionalCheckFailedException
		if err != nil && !errors.As(err, &refused) {
			return ratelimit.Result{}, fmt.Errorf("update ledger: %w", err)
		}
		l, readErr := readLedger(item)
		if readErr != nil {
			return ratelimit.Result{}, readErr
		}
		s.ledgers.put(id, l.seen(date))
		result := ratelimit.Result{Admitted: err == nil, Window: u.window, Used: l.used(costs, u.window)}
		faulty := !date.IsZero() && l.floor > ratelimit.WindowAt(date)+faultyFloor
		switch {
		case faulty:
			s.setBack(ctx, id, l.floor, ratelimit.WindowAt(date)+restart)
		case err == nil:
			s.tidy(ctx, id, l.seen(date), u.window)
		}
		if err == nil || !faulty && l.floor <= u.window && !u.fits(l) {
			return result, nil
		}
	}
	return ratelimit.Result{}, fmt.Errorf("update ledger: the floor changed %d times", ledgerTries)
}

// sendUpdate sends an update. It returns the item as it is afterwards, also if the condition fails, and
// the Date of the response; zero if there was none.
func (s *Counters) sendUpdate(ctx context.Context, in *dynamodb.UpdateItemInput) (item attributeValues, date time.Time, err error) {
	sent := s.now()
	out, err := s.client.UpdateItem(ctx, in, counterOptions(s.retryer))
	if err == nil {
		item = out.Attributes
	} else if refused := new(types.ConditionalCheckFailedException); errors.As(err, &refused) {
		item = refused.Item
	}
	date = s.dateOf(out, err)
	s.clock.learn(date, sent, s.now())
	return item, date, err
}

// tidy removes what is closed, if that is much: instances that each charge once have seen nothing that
// they could remove. A failure is harmless, because the next charge tries again.
func (s *Counters) tidy(ctx context.Context, id ledgerID, seen seenLedger, window ratelimit.Window) {
	u := ledgerUpdate{table: s.table, id: id, window: window}
	u.clean(seen)
	if len(u.remove) <= maxClosed {
		return
	}
	if item, date, err := s.sendUpdate(ctx, u.input()); err == nil {
		if l, err := readLedger(item); err == nil {
			s.ledgers.put(id, l.seen(date))
		}
	}
}

// setBack corrects a floor that a wrong clock has set, unless another instance has just done so.
func (s *Counters) setBack(ctx context.Context, id ledgerID, was, now ratelimit.Window) {
	item, date, err := s.sendUpdate(ctx, &dynamodb.UpdateItemInput{
		TableName: &s.table, Key: id.key(),
		UpdateExpression:          aws.String("SET #floor = :now"),
		ConditionExpression:       aws.String("#floor = :was"),
		ExpressionAttributeNames:  map[string]string{"#floor": "floor"},
		ExpressionAttributeValues: attributeValues{":now": number(int64(now)), ":was": number(int64(was))},
		ReturnValues:              types.ReturnValueAllNew,
	})
	if err != nil {
		s.ledgers.forget(id)
		return
	}
	if l, err := readLedger(item); err == nil {
		s.ledgers.put(id, l.seen(date))
	}
	if s.FloorFault != nil {
		s.FloorFault(ctx, id.identity, was, now)
	}
}

// ledgerUpdate is one update of a ledger.
type ledgerUpdate struct {
	table  string
	id     ledgerID
	costs  []ratelimit.Cost
	window ratelimit.Window

	remove []string         // counters that are closed if floor is the floor
	floor  ratelimit.Window // what the removal needs; 0 without one
	raise  bool             // whether to set the floor
}

// clean adds the removal of what is closed, as far as its instance knows.
func (u *ledgerUpdate) clean(seen seenLedger) {
	floor := seen.floor
	if !seen.at.IsZero() {
		floor = min(max(floor, ratelimit.WindowAt(seen.at)-closedAfter), u.window)
	}
	for _, name := range seen.names {
		if removable(name, floor) {
			u.remove = append(u.remove, name)
		}
	}
	if len(u.remove) > 0 {
		u.floor, u.raise = floor, floor > seen.floor
	}
}

// input leaves out costs of 0, which always fit. The response contains their counters anyway.
func (u *ledgerUpdate) input() *dynamodb.UpdateItemInput {
	names := map[string]string{"#floor": "floor", "#expires_at": "expires_at"}
	values := attributeValues{":second": number(int64(u.window)), ":expires_at": number(u.window.Reset() + int64(ledgerRetention/time.Second))}
	conditions := []string{"(attribute_not_exists(#floor) OR #floor <= :second)"}
	set := []string{"#expires_at = :expires_at"}
	if len(u.remove) > 0 {
		values[":floor"] = number(int64(u.floor))
		if u.raise {
			set = append(set, "#floor = :floor")
			conditions = append(conditions, "(attribute_not_exists(#floor) OR #floor <= :floor)")
		} else {
			conditions = append(conditions, "#floor >= :floor") // it may have been set back
		}
	}
	var add, remove []string
	for i, c := range u.costs {
		if c.Amount == 0 {
			continue
		}
		name, amount, room := fmt.Sprintf("#c%d", i), fmt.Sprintf(":a%d", i), fmt.Sprintf(":r%d", i)
		names[name], values[amount] = ledgerName(c.Rule.Counter, c.Rule.Period, u.window), number(c.Amount)
		add = append(add, name+" "+amount)
		if c.Rule.Limit != ratelimit.NoLimit {
			values[room] = number(c.Rule.Limit - c.Amount)
			conditions = append(conditions, fmt.Sprintf("(attribute_not_exists(%s) OR %[1]s <= %s)", name, room))
		}
	}
	for i, name := range u.remove {
		alias := fmt.Sprintf("#x%d", i)
		names[alias] = name
		remove = append(remove, alias)
	}
	expression := "SET " + strings.Join(set, ", ")
	if len(add) > 0 {
		expression += " ADD " + strings.Join(add, ", ")
	}
	if len(remove) > 0 {
		expression += " REMOVE " + strings.Join(remove, ", ")
	}
	return &dynamodb.UpdateItemInput{
		TableName: &u.table, Key: u.id.key(),
		UpdateExpression:                    &expression,
		ConditionExpression:                 aws.String(strings.Join(conditions, " AND ")),
		ExpressionAttributeNames:            names,
		ExpressionAttributeValues:           values,
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

// fits reports whether all costs fit into the counters of l.
func (u *ledgerUpdate) fits(l ledger) bool {
	used := l.used(u.costs, u.window)
	for i, c := range u.costs {
		if !c.Rule.Fits(used[i], c.Amount) {
			return false
		}
	}
	return true
}

type ledgerID struct {
	identity string
	group    ratelimit.Group
}

func (id ledgerID) key() attributeValues {
	return attributeValues{"pk": text(ledgerPartition(id.identity, id.group)), "second": number(0)}
}

func ledgerPartition(identity string, group ratelimit.Group) string {
	return identity + "#" + string(group)
}

// ledger is an item, decoded.
type ledger struct {
	floor    ratelimit.Window
	counters map[string]int64 // by attribute
}

func readLedger(item attributeValues) (ledger, error) {
	r := readItem(item)
	l := ledger{floor: ratelimit.Window(r.optionalNumber("floor")), counters: make(map[string]int64, len(item))}
	for name := range item {
		if _, _, _, ok := parseLedgerName(name); ok {
			l.counters[name] = r.number(name)
		}
	}
	return l, r.err()
}

func (l ledger) used(costs []ratelimit.Cost, w ratelimit.Window) []int64 {
	used := make([]int64, len(costs))
	for i, c := range costs {
		used[i] = l.counters[ledgerName(c.Rule.Counter, c.Rule.Period, w)]
	}
	return used
}

// seen returns what a later charge needs to know of l, which a response with the Date at showed.
func (l ledger) seen(at time.Time) seenLedger {
	const most = 40 // so that an update stays small
	names := slices.Sorted(maps.Keys(l.counters))
	slices.SortStableFunc(names, func(a, b string) int {
		_, _, x, _ := parseLedgerName(a)
		_, _, y, _ := parseLedgerName(b)
		return cmp.Compare(x, y)
	})
	return seenLedger{at: at, floor: l.floor, names: names[:min(len(names), most)]}
}
