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
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/spf13/cobra"

	"sluice/cmd/sluice/internal/progress"
	"sluice/pkg/access"
	"sluice/pkg/audit"
	"sluice/pkg/bolt"
	"sluice/pkg/dynamo"
	"sluice/pkg/index"
	"sluice/pkg/record"
)

// indexes are declarations that a process builds, which need not run: a server, or a function.
type indexes struct {
	index.Store
	watch bool // whether the process can be expected to be running, as in a deployment
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
			return indexes{s, true}, err
		},
	}
	return o.command("indexes", "Choose by which attributes entities and events can be found",
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

The running server builds the index or, in a deployment, a function: first, all
instances begin to write the index, which takes up to three minutes in a deployment.
Then the records that exist are added.`, addIndexCommand(o), listIndexesCommand(o), removeIndexCommand(o))
}

// indexArgs are the flags that "indexes add" and "indexes remove" have in common.
type indexArgs struct {
	workspace string
	events    string // "name" for the index of events; "" for one of entities
}

func (a *indexArgs) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.workspace, "workspace", access.DefaultWorkspace, "workspace of the records")
	cmd.Flags().StringVar(&a.events, "events", "", "the index of events by this member, which must be name, instead of one of entities")
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

func addIndexCommand(o *indexStorage) *cobra.Command {
	var a indexArgs
	var rate int
	given := make(map[string]*bool)
	cmd := &cobra.Command{
		Use:   "add {TYPE ATTRIBUTE[:number|:boolean|:fold|:text]... [--number|--boolean|--fold] | --events name} [--workspace NAME]",
		Short: "Index attributes, or events by name",
		Long: `Index up to three attributes of the entities of a type, or events by name. Values
are texts that compare exactly, unless a flag, or :number, :boolean or :fold after a name, says otherwise.
A flag is for all names without such an ending. Folded texts compare regardless of case.
Queries are refused until the index is complete.

If the command is stopped, the index is built all the same. Run it again to watch on.`,
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
			if err := d.Validate(); err != nil {
				return usageError("%w", err)
			}
			if d.Rate = rate; rate < 0 {
				return usageError("--rate must not be negative")
			}
			s, where, err := o.openNew(cmd)
			if err != nil {
				return err
			}
			err = audited(cmd, o, audit.Record{Action: "create-entity-index", Workspace: d.Workspace, Of: "index:" + d.Name()}, nil, func() (any, error) {
				d, err = index.Add(cmd.Context(), s, d)
				return d, err
			})
			if err != nil {
				return err
			}
			return finishIndex(cmd, o, s, where, d)
		},
	}
	a.addFlags(cmd)
	cmd.Flags().IntVar(&rate, "rate", 0, fmt.Sprintf("records per second that are read at most, also when the index is removed; 0 for %d; not in a data directory", index.DefaultRate))
	given["number"] = cmd.Flags().Bool("number", false, "index values that are JSON numbers")
	given["boolean"] = cmd.Flags().Bool("boolean", false, "index values that are true or false")
	given["fold"] = cmd.Flags().Bool("fold", false, "index texts regardless of case")
	return cmd
}

func removeIndexCommand(o *indexStorage) *cobra.Command {
	var a indexArgs
	cmd := &cobra.Command{
		Use:     "remove {TYPE ATTRIBUTE... | --events name} [--workspace NAME]",
		Short:   "Remove an index",
		Long:    "Remove the index on these attributes. Queries are refused at once. The entities stay as they are.\n\nIf the command is stopped, the index is removed all the same.",
		Example: "  sluice indexes remove person email\n  sluice indexes remove order status total",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, where, err := o.open(cmd)
			if err != nil {
				return err
			}
			d := a.declaration(args, index.Field{})
			name := d.Name()
			err = audited(cmd, o, audit.Record{Action: "remove-entity-index", Workspace: d.Workspace, Of: "index:" + d.Name()}, nil, func() (any, error) {
				d, err = index.Remove(cmd.Context(), s, a.workspace, d.Type, d.Fields.Names()...)
				return d, err
			})
			if errors.Is(err, index.ErrNotFound) {
				return fmt.Errorf("there is no index of %s in %s; \"sluice indexes list\" shows them", name, where)
			}
			if err != nil {
				return err
			}
			return finishIndex(cmd, o, s, where, d)
		},
	}
	a.addFlags(cmd)
	return cmd
}

// finishIndex watches until the index that d declares is ready or removed, or says where that will
// happen.
func finishIndex(cmd *cobra.Command, o *indexStorage, s indexes, where string, d index.Declaration) error {
	removing := d.State == index.Removing
	switch {
	case d.State == index.Ready:
	case !s.watch:
		fmt.Fprintf(cmd.ErrOrStderr(), "The server that uses %s does the rest while it runs; \"sluice indexes list\" shows how far it is.\n", where)
	default:
		doing := "builds"
		if removing {
			doing = "removes"
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "The service %s the index of %s, even if this command is stopped.\n", doing, d.Name())
		var err error
		if d, err = watchIndex(cmd.Context(), s, d, cmd.ErrOrStderr()); err != nil {
			return fmt.Errorf("%w; \"sluice indexes list\" shows how far the index is", err)
		}
	}
	switch {
	case o.json:
		return printJSON(cmd.OutOrStdout(), d)
	case removing && s.watch:
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

const indexPoll = time.Second

// watchIndex shows the progress of the index that d declares until it is ready or removed, and
// returns the last declaration that it has seen.
func watchIndex(ctx context.Context, s index.Store, d index.Declaration, stderr io.Writer) (index.Declaration, error) {
	var now atomic.Pointer[index.Declaration]
	now.Store(new(d))
	stop := progress.Start(stderr, nounOf(d), func() progress.State { return indexProgress(*now.Load()) })
	defer stop()
	for {
		all, err := s.List(ctx)
		if err != nil {
			return d, cmp.Or(context.Cause(ctx), err)
		}
		i := slices.IndexFunc(all, func(other index.Declaration) bool { return other.ID() == d.ID() && other.Fields == d.Fields })
		switch {
		case i < 0 && d.State == index.Removing:
			return d, nil
		case i < 0, d.State != index.Removing && all[i].State == index.Removing:
			return d, errors.New("somebody else removes the index")
		case d.State == index.Removing && all[i].State != index.Removing: // removed, and declared again
			return d, nil
		case all[i].State == index.Ready:
			return all[i], nil
		}
		d = all[i]
		now.Store(new(d))
		select {
		case <-time.After(indexPoll):
		case <-ctx.Done():
			return d, context.Cause(ctx)
		}
	}
}

func indexProgress(d index.Declaration) progress.State {
	state := progress.State{Done: d.Build.Read, Part: d.Done()}
	switch {
	case !d.Begun() && d.Build.Seen == record.Time{}:
		state.Waiting = "waiting for the service to begin, which takes up to a minute"
	case !d.Begun():
		state.Waiting = fmt.Sprintf("waiting %.0f s until all instances know", index.TakeUp.Seconds())
	case d.State == index.Removing:
		state.Waiting = "removing the keys"
	}
	return state
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
