"""Clients of OpenAI's API that others wrote, each at a hub's `/v1`: `chat_clients.py CLIENT MODELS KEY PROMPT`.

Asks the model `default` by PROMPT, with no tools of its own, and writes what it answered as JSON: `{"answered": text}`.
The tools are those that the hub gives to the model. Runs in the environment of a framework (see `install.AT_V1`).
"""

import asyncio
import json
import os
import sys


async def openai(models, key, prompt):
    from openai import AsyncOpenAI

    asked = [{"role": "user", "content": prompt}]
    answer = await AsyncOpenAI(base_url=models, api_key=key).chat.completions.create(model="default", messages=asked)
    return answer.choices[0].message.content


async def openai_responses(models, key, prompt):
    from openai import AsyncOpenAI

    tools = [{"type": "mcp", "server_label": "hub", "server_url": "hub", "require_approval": "never"}]
    client = AsyncOpenAI(base_url=models, api_key=key)
    return (await client.responses.create(model="default", input=prompt, tools=tools)).output_text


async def langchain_openai(models, key, prompt):
    from langchain_openai import ChatOpenAI

    return (await ChatOpenAI(model="default", base_url=models, api_key=key).ainvoke(prompt)).content


async def llama_index_openai_like(models, key, prompt):
    from llama_index.core.llms import ChatMessage
    from llama_index.llms.openai_like import OpenAILike

    model = OpenAILike(model="default", api_base=models, api_key=key, is_chat_model=True)
    return (await model.achat([ChatMessage(role="user", content=prompt)])).message.content


async def pydantic_ai_openai(models, key, prompt):
    from pydantic_ai.direct import model_request
    from pydantic_ai.messages import ModelRequest
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel("default", provider=OpenAIProvider(base_url=models, api_key=key))
    return (await model_request(model, [ModelRequest.user_text_prompt(prompt)])).parts[0].content


async def litellm(models, key, prompt):
    from litellm import acompletion

    asked = [{"role": "user", "content": prompt}]
    answer = await acompletion(model="openai/default", api_base=models, api_key=key, messages=asked)
    return answer.choices[0].message.content


async def autogen_openai(models, key, prompt):
    from autogen_core.models import UserMessage
    from autogen_ext.models.openai import OpenAIChatCompletionClient

    cannot = dict.fromkeys(("vision", "function_calling", "json_output", "structured_output"), False)
    model = OpenAIChatCompletionClient(
        model="default", base_url=models, api_key=key, model_info={**cannot, "family": "unknown"}
    )
    return (await model.create([UserMessage(content=prompt, source="somebody")])).content


async def agno_openai_like(models, key, prompt):
    from agno.models.message import Message
    from agno.models.openai.like import OpenAILike

    model = OpenAILike(id="default", base_url=models, api_key=key)
    return (await model.aresponse([Message(role="user", content=prompt)])).content


async def smolagents_openai(models, key, prompt):
    from smolagents import ChatMessage, OpenAIModel

    asked = [ChatMessage(role="user", content=[{"type": "text", "text": prompt}])]
    model = OpenAIModel(model_id="default", api_base=models, api_key=key)
    return (await asyncio.to_thread(model.generate, asked)).content


def main():
    client, models, key, prompt = sys.argv[1:]
    # Nothing of a rig is told to those who wrote the clients.
    os.environ |= {"AGNO_TELEMETRY": "false", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "OTEL_SDK_DISABLED": "true"}
    print(json.dumps({"answered": asyncio.run(globals()[client.replace("-", "_")](models, key, prompt))}))


if __name__ == "__main__":
    main()
