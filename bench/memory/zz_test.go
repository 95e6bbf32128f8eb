package memory
import ("testing";"context";"strconv";"slices";"fmt";"sluice/pkg/ratelimit";"sluice/pkg/ratelimit/memstore"
"github.com/sethvargo/go-limiter/memorystore";"time")
func keys(n int) []string { keys:=make([]string,n); for i:=range keys { keys[i]="10."+strconv.Itoa(i>>16)+"."+strconv.Itoa(i>>8&255)+"."+strconv.Itoa(i&255) }; return keys }
func sluice(limit int64, route *ratelimit.Route) func(string) { ctx:=context.Background()
 l,_:=ratelimit.New(memstore.New(), ratelimit.Config{Limits:ratelimit.Limits{Imports:limit,Requests:limit}})
 return func(k string){ l.Charge(ctx, ratelimit.Request{Address:k,Route:route}) } }
func gol(limit uint64) func(string) { ctx:=context.Background()
 s,_:=memorystore.New(&memorystore.Config{Tokens:limit,Interval:time.Second})
 return func(k string){ s.Take(ctx,k) } }
var imp=ratelimit.NewRoute("create-event",ratelimit.Import)
func TestY(t *testing.T){
 for _,n:=range []int{1,10000,1000000}{ for _,lim:=range []int64{1<<40,1}{
  ks:=keys(n)
  fs:=[]func(string){sluice(lim,imp),gol(uint64(lim))}
  var res [2][]float64
  for _,f:=range fs { for _,k:=range ks { f(k) } }
  at:=[2]int{}
  const K=10000
  for r:=0;r<100;r++ { for j,f:=range fs {
    s:=time.Now(); i:=at[j]; for range K { i++; if i>=n {i=0}; f(ks[i]) }; at[j]=i
    res[j]=append(res[j],float64(time.Since(s).Nanoseconds())/K) } }
  for j:=range res { slices.Sort(res[j]) }
  fmt.Printf("%8d %14d  sluice min %.0f q1 %.0f med %.0f   go-limiter min %.0f q1 %.0f med %.0f\n",n,lim,res[0][0],res[0][25],res[0][50],res[1][0],res[1][25],res[1][50])
 }}
}
