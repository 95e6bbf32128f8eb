package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"text/tabwriter"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/spf13/cobra"

	"sluice/cmd/sluice/internal/progress"
	"sluice/pkg/access"
	"sluice/pkg/bolt"
	"sluice/pkg/dynamo"
	"sluice/pkg/index"
)

type indexes struct {
	index.Store
	keeper index.Keeper // adds and removes the keys of entities; nil if a server does that
}

type indexStorage = storage[indexes]

func indexesCommand(getenv func(string) string) *cobra.Command {
	o := &indexStorage{
		getenv: getenv, what: "entities", variable: "ENTITIES_TABLE", logicalID: "EntitiesTable",
		openDir: func(dir string) (indexes, error) {
			s, err := bolt.OpenIndexes(dir)
			return indexes{Store: s}, err
		},
		openTable: func(client *dynamodb.Client, name string) (indexes, error) {
			s, err := dynamo.NewIndexes(client, name)
			if err != nil {
				return indexes{}, err
			}
			keeper, err := dynamo.NewEntities(client, name, dynamo.EntitiesConfig{})
			return indexes{s, keeper}, err
		},
	}
	events := &beside[index.Keeper]{
		flag: "events-table", variable: "EVENTS_TABLE",
		openDir: func(string) (index.Keeper, error) { return nil, nil },
		openTable: func(client *dynamodb.Client, name string) (index.Keeper, error) {
			s, err := dynamo.NewEvents(client, name, dynamo.EventsConfig{})
			return dynamo.NewEventKeys(client, s), err
		},
	}
	cmd := o.command("indexes", "Choose by which attributes entities and events can be found",
		`Choose the attributes of an entity type by which entities can be found, with at most
four indexes for a workspace and type:

  GET /entity?type=person&attributes.email=ada@example.com
  GET /entity?type=order&attributes.status=paid&attributes.total[gte]=100

The second query needs an index on both attributes. An index covers up to three, and
only entities that have all of them. It serves queries that give a value for each but
the last that they name, and always for the first.

An index of events by name serves GET /event?name=order_paid, and export jobs by name.

A value that is not of the declared type is not indexed, nor are texts over 800 bytes
in all or a number beyond 38 digits. Each index adds one write unit to the creation of
an entity that has its attributes, and two to a change of their values.

In a data directory, the running server builds the index. In DynamoDB, this command
does: it waits until all instances write the index, then adds the entities that exist.`, addIndexCommand(o, events), listIndexesCommand(o), removeIndexCommand(o, events))
	events.addFlag(cmd, getenv, "events, for an index of events")
	return cmd
}

// indexArgs are the flags that "indexes add" and "indexes remove" have in common.
type indexArgs struct {
	workspace string
	events    string // "name" for the index of events; "" for one of entities
	rate      int
	keepers   index.Keepers // set by open
}

func (a *indexArgs) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.workspace, "workspace", access.DefaultWorkspace, "workspace of the records")
	cmd.Flags().StringVar(&a.events, "events", "", "the index of events by this member, which must be name, instead of one of entities")
	cmd.Flags().IntVar(&a.rate, "rate", index.DefaultRate, "records per second that this command changes at most; not in a data directory")
	cmd.Args = func(_ *cobra.Command, args []string) error {
		switch {
		case a.events != "" && len(args) > 0:
			return errors.New("give --events name and no entity type, or a type and its attributes")
		case a.events == "" && (len(args) < 2 || len(args) > 1+index.MaxFields):
			return fmt.Errorf("give an entity type and the names of one to %d attributes, such as person email, or --events name", index.MaxFields)
		}
		return nil
	}
}

// declaration returns what the arguments declare. Attributes that do not say what they are, are like
// other.
func (a *indexArgs) declaration(args []string, other index.Field) index.Declaration {
	if a.events != "" {
		return index.Declaration{Workspace: a.workspace, Fields: index.Fields{{Name: a.events, ValueType: index.Text}}}
	}
	return index.Declaration{Workspace: a.workspace, Type: args[0], Fields: fieldsOf(args[1:], other)}
}

// open opens what builds and removes the index that d declares, unless a server does that.
func (a *indexArgs) open(cmd *cobra.Command, o *indexStorage, s indexes, events *beside[index.Keeper], d index.Declaration) error {
	a.keepers.Entities = s.keeper
	if s.keeper == nil || !d.OfEvents() {
		return nil
	}
	var known bool
	var err error
	if a.keepers.Events, known, err = openBeside(cmd, o, events); err == nil && !known {
		err = usageError("--events-table is required: the table of the events")
	}
	return err
}

func (a *indexArgs) check() error {
	if a.rate < 1 {
		return usageError("--rate must be at least 1")
	}
	return nil
}

// fieldsOf reads attributes, each perhaps followed by what it is, such as total:number. Those without
// are like other.
func fieldsOf(args []string, other index.Field) (fields index.Fields) {
	for i, arg := range args {
		fields[i] = other
		fields[i].Name = arg
		for what, f := range fieldKinds {
			if name, ok := strings.CutSuffix(arg, ":"+what); ok {
				fields[i] = f
				fields[i].Name = name
			}
		}
	}
	return fields
}

var fieldKinds = map[string]index.Field{
	"text":    {ValueType: index.Text},
	"number":  {ValueType: index.Number},
	"boolean": {ValueType: index.Boolean},
	"fold":    {ValueType: index.Text, Fold: true},
}

func addIndexCommand(o *indexStorage, events *beside[index.Keeper]) *cobra.Command {
	var a indexArgs
	given := make(map[string]*bool)
	cmd := &cobra.Command{
		Use:   "add {TYPE ATTRIBUTE[:number|:boolean|:fold|:text]... [--number|--boolean|--fold] | --events name} [--workspace NAME]",
		Short: "Index attributes, or events by name, or continue to",
		Long: `Index up to three attributes of the entities of a type, or events by name. Values
are texts that compare exactly, unless a flag, or :number, :boolean or :fold after a name, says otherwise.
A flag is for all names without such an ending. Folded texts compare regardless of case.
Queries are refused until the index is complete.

If the command is stopped, run it again to continue.`,
		Example: `  sluice indexes add person email
  sluice indexes add person name --fold
  sluice indexes add person born --number --table sluice-EntitiesTable-1ABCDEF
  sluice indexes add order status total:number --workspace acme
  sluice indexes add --events name`,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind := ""
			for what, set := range given {
				if *set && kind != "" {
					return usageError("give only one of --number, --boolean and --fold")
				}
				if *set {
					kind = what
				}
			}
			d := a.declaration(args, fieldKinds[cmp.Or(kind, "text")])
			if err := errors.Join(d.Validate(), a.check()); err != nil {
				return usageError("%w", err)
			}
			s, where, err := o.openNew(cmd)
			if err == nil {
				err = a.open(cmd, o, s, events, d)
			}
			if err != nil {
				return err
			}
			if d, err = index.Add(cmd.Context(), s, d); err != nil {
				return err
			}
			return a.finish(cmd, o, s, where, d)
		},
	}
	a.addFlags(cmd)
	given["number"] = cmd.Flags().Bool("number", false, "index values that are JSON numbers")
	given["boolean"] = cmd.Flags().Bool("boolean", false, "index values that are true or false")
	given["fold"] = cmd.Flags().Bool("fold", false, "index texts regardless of case")
	return cmd
}

func removeIndexCommand(o *indexStorage, events *beside[index.Keeper]) *cobra.Command {
	var a indexArgs
	cmd := &cobra.Command{
		Use:     "remove {TYPE ATTRIBUTE... | --events name} [--workspace NAME]",
		Short:   "Remove an index, or continue to",
		Long:    "Remove the index on these attributes. Queries are refused at once. The entities stay as they are.\n\nIf the command is stopped, run it again to continue.",
		Example: "  sluice indexes remove person email\n  sluice indexes remove order status total",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.check(); err != nil {
				return err
			}
			s, where, err := o.open(cmd)
			d := a.declaration(args, index.Field{})
			if err == nil {
				err = a.open(cmd, o, s, events, d)
			}
			if err != nil {
				return err
			}
			name := d.Name()
			d, err = index.Remove(cmd.Context(), s, a.workspace, d.Type, d.Fields.Names()...)
			if errors.Is(err, index.ErrNotFound) {
				return fmt.Errorf("%s is not indexed in %s; \"sluice indexes list\" shows what is", name, where)
			}
			if err != nil {
				return err
			}
			return a.finish(cmd, o, s, where, d)
		},
	}
	a.addFlags(cmd)
	return cmd
}

// finish builds or removes the index that d declares, or says that the server will do so.
func (a *indexArgs) finish(cmd *cobra.Command, o *indexStorage, s indexes, where string, d index.Declaration) error {
	removing := d.State == index.Removing
	switch {
	case d.State == index.Ready:
	case s.keeper == nil:
		fmt.Fprintf(cmd.ErrOrStderr(), "The server that uses %s does the rest while it runs; \"sluice indexes list\" shows how far it is.\n", where)
	default:
		var err error
		if d, err = a.run(cmd.Context(), s, d, cmd.ErrOrStderr()); err != nil {
			return fmt.Errorf("%w\nThe index of %s is not complete; run the same command again to continue", err, d.Name())
		}
	}
	switch {
	case o.json:
		return printJSON(cmd.OutOrStdout(), d)
	case removing && s.keeper != nil:
		fmt.Fprintf(cmd.OutOrStdout(), "The index of %s is removed.\n", d.Name())
	case d.State == index.Ready:
		fmt.Fprintf(cmd.OutOrStdout(), "The index of %s is ready: %s.\n", d.Name(), describeBuild(d))
	}
	return nil
}

var (
	entityNoun = progress.Noun{One: "entity", Many: "entities"}
	eventNoun  = progress.Noun{One: "event", Many: "events"}
)

func nounOf(d index.Declaration) progress.Noun {
	if d.OfEvents() {
		return eventNoun
	}
	return entityNoun
}

func (a *indexArgs) run(ctx context.Context, s indexes, d index.Declaration, stderr io.Writer) (index.Declaration, error) {
	var now atomic.Pointer[progress.State]
	show := func(d index.Declaration, waiting bool) {
		state := progress.State{Done: d.Build.Read, Part: d.Done()}
		switch {
		case waiting:
			state.Waiting = fmt.Sprintf("waiting %.0f s until all instances know", index.TakeUp.Seconds())
		case d.State == index.Removing:
			state.Waiting = "removing the keys"
		}
		now.Store(&state)
	}
	show(d, false)
	stop := progress.Start(stderr, nounOf(d), func() progress.State { return *now.Load() })
	defer stop()
	return index.NewBuilder(s.Store, a.keepers, index.BuilderConfig{Rate: a.rate, Progress: show}).Run(ctx, d)
}

func describeBuild(d index.Declaration) string {
	b := d.Build
	text := nounOf(d).Count(b.Indexed) + " indexed"
	if !d.OfEvents() {
		text += fmt.Sprintf(", %d without an attribute", b.Absent)
	}
	if b.Unfit > 0 {
		text += fmt.Sprintf(", %d with a value that cannot be indexed", b.Unfit)
	}
	return text
}

func listIndexesCommand(o *indexStorage) *cobra.Command {
	var workspace string
	cmd := &cobra.Command{
		Use:   "list [--workspace NAME]",
		Short: "Show the indexes and how far they are built",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := requireValues(cmd, "workspace"); err != nil {
				return err
			}
			s, where, err := o.open(cmd)
			if err != nil {
				return err
			}
			all, err := s.List(cmd.Context())
			if workspace != "" {
				all = slices.DeleteFunc(all, func(d index.Declaration) bool { return d.Workspace != workspace })
			}
			switch {
			case err != nil:
				return err
			case o.json:
				return printJSON(cmd.OutOrStdout(), append([]index.Declaration{}, all...))
			case len(all) == 0:
				fmt.Fprintf(cmd.ErrOrStderr(), "No attribute is indexed in %s.\n", where)
				return nil
			}
			return printIndexes(cmd.OutOrStdout(), all)
		},
	}
	cmd.Flags().StringVar(&workspace, "workspace", "", "only indexes of this workspace")
	return cmd
}

func printIndexes(w io.Writer, all []index.Declaration) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WORKSPACE\tTYPE\tATTRIBUTES\tPLACE\tSTATE\tDONE\tINDEXED\tABSENT\tUNFIT")
	for _, d := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%.0f %%\t%d\t%d\t%d\n", d.Workspace, cmp.Or(d.Type, "(events)"), d.Fields, d.Place, d.State, 100*d.Done(), d.Build.Indexed, d.Build.Absent, d.Build.Unfit)
	}
	return table.Flush()
}
