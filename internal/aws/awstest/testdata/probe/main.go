// Command probe is a function that tells what it can reach: asked over HTTP, whether LocalStack answers; woken by a
// stream, it writes down each record's number.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

type event struct {
	events.APIGatewayV2HTTPRequest
	events.KinesisEvent
	Fail string `json:"fail"`
}

func main() {
	lambda.Start(func(ctx context.Context, e event) (json.RawMessage, error) {
		if e.Fail != "" {
			return nil, errors.New(e.Fail)
		}
		if len(e.Records) > 0 {
			return json.RawMessage(`{}`), note(ctx, e.Records)
		}
		res, err := http.Get(os.Getenv("AWS_ENDPOINT_URL") + "/_localstack/health")
		if err != nil {
			return nil, err
		}
		defer res.Body.Close()
		return json.Marshal(events.APIGatewayV2HTTPResponse{StatusCode: res.StatusCode, Body: e.RawPath})
	})
}

func note(ctx context.Context, records []events.KinesisEventRecord) error {
	c, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	table := os.Getenv("TABLE")
	for _, r := range records {
		item := map[string]types.AttributeValue{
			"p": &types.AttributeValueMemberS{Value: "probe"},
			"k": &types.AttributeValueMemberS{Value: r.Kinesis.SequenceNumber},
		}
		if _, err := dynamodb.NewFromConfig(c).PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: item}); err != nil {
			return fmt.Errorf("note a record: %w", err)
		}
	}
	return nil
}
