package awsconfig_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"sluice/functions/internal/awsconfig"
)

// What the clients make of the configuration is what they make of the one that
// the SDK's own search finds in the same environment.
func TestClientsAreAsTheSDKConfiguresThem(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"what Lambda sets":    {"AWS_SESSION_TOKEN": "token", "AWS_EXECUTION_ENV": "AWS_Lambda_provided.al2023", "AWS_DEFAULT_REGION": "eu-central-1"},
		"endpoints":           {"AWS_ENDPOINT_URL": "http://a.example", "AWS_ENDPOINT_URL_DYNAMODB": "http://d.example", "AWS_ENDPOINT_URL_S3": "http://s.example"},
		"one for all":         {"AWS_ENDPOINT_URL": "http://a.example"},
		"endpoints not used":  {"AWS_ENDPOINT_URL": "http://a.example", "AWS_ENDPOINT_URL_DYNAMODB": "http://d.example", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"},
		"FIPS and dual stack": {"AWS_USE_FIPS_ENDPOINT": "true", "AWS_USE_DUALSTACK_ENDPOINT": "true"},
		"retries":             {"AWS_RETRY_MODE": "adaptive", "AWS_MAX_ATTEMPTS": "7"},
		"a mode":              {"AWS_DEFAULTS_MODE": "cross-region"},
		"mode auto":           {"AWS_DEFAULTS_MODE": "auto", "AWS_EXECUTION_ENV": "AWS_Lambda_provided.al2023", "AWS_EC2_METADATA_DISABLED": "true"},
		"the rest": {"AWS_SDK_UA_APP_ID": "app", "AWS_ACCOUNT_ID": "123456789012", "AWS_ACCOUNT_ID_ENDPOINT_MODE": "required",
			"AWS_DISABLE_CLOCK_SKEW_CORRECTION": "true", "AWS_AUTH_SCHEME_PREFERENCE": "sigv4,sigv4a", "AWS_ENABLE_ENDPOINT_DISCOVERY": "true"},
	} {
		t.Run(name, func(t *testing.T) {
			onlyLambda(t)
			for name, value := range env {
				t.Setenv(name, value)
			}
			got, err := awsconfig.Load()
			if err != nil {
				t.Fatal(err)
			}
			want, err := config.LoadDefaultConfig(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			same(t, dynamodb.NewFromConfig(got).Options(), dynamodb.NewFromConfig(want).Options())
			if got, want := dynamodb.NewFromConfig(got).Options().Retryer.MaxAttempts(), dynamodb.NewFromConfig(want).Options().Retryer.MaxAttempts(); got != want {
				t.Errorf("%d attempts, want %d", got, want)
			}
			same(t, s3.NewFromConfig(got).Options(), s3.NewFromConfig(want).Options())
			gotKeys, gotErr := got.Credentials.Retrieve(t.Context())
			wantKeys, wantErr := want.Credentials.Retrieve(t.Context())
			gotKeys.Source, wantKeys.Source = "", ""
			if gotErr != nil || wantErr != nil || !reflect.DeepEqual(gotKeys, wantKeys) {
				t.Errorf("credentials %v %v, want %v %v", gotKeys, gotErr, wantKeys, wantErr)
			}
		})
	}
}

// same compares the options of two clients, all that are of plain values.
func same(t *testing.T, got, want any) {
	t.Helper()
	compared := 0
	for i := range reflect.TypeOf(want).NumField() {
		field := reflect.TypeOf(want).Field(i)
		switch field.Name {
		case "RuntimeEnvironment", // without it the modes would differ
			"RequestChecksumCalculation", "ResponseChecksumValidation": // s3files sets them
			continue
		}
		g, w := reflect.ValueOf(got).Field(i), reflect.ValueOf(want).Field(i)
		if !field.IsExported() {
			continue
		}
		switch w.Kind() {
		case reflect.Interface, reflect.Func, reflect.Map:
			continue
		case reflect.Slice:
			if field.Type.Elem().Kind() != reflect.String {
				continue
			}
		}
		compared++
		if !reflect.DeepEqual(g.Interface(), w.Interface()) {
			t.Errorf("%T.%s is %#v, want %#v", want, field.Name, g.Interface(), w.Interface())
		}
	}
	if compared < 10 {
		t.Errorf("only %d fields of %T were compared", compared, want)
	}
}

// onlyLambda leaves of the environment what every function has.
func onlyLambda(t *testing.T) {
	t.Helper()
	for _, pair := range os.Environ() {
		if name, value, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, value) // to be set again after the test
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("AWS_REGION", "eu-central-1")
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	for _, missing := range []string{"AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		onlyLambda(t)
		t.Setenv(missing, "")
		if _, err := awsconfig.Load(); err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("without %s: %v", missing, err)
		}
	}
}

func TestAWrongVariableIsAnError(t *testing.T) {
	onlyLambda(t)
	t.Setenv("AWS_MAX_ATTEMPTS", "many")
	if _, err := awsconfig.Load(); err == nil {
		t.Error("no error")
	}
}
